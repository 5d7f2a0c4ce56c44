"""Kafka: one KRaft broker that is its own controller."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient

from pipestream.local.jars import kafka_jars
from pipestream.local.java import find_java_home
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server
from pipestream.local.tools import Report, run_tool

if TYPE_CHECKING:
    from pathlib import Path

_LOG4J = """\
status = warn
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


class Kafka(Server):
    name = "kafka"
    port_names = ("kafka", "kafka_controller")
    # A controlled shutdown writes its snapshots; killed earlier, the next start replays its log.
    stop_timeout_s = 30.0

    def fetch(self, report: Report) -> None:
        # Checked first: if the jars are cached, a missing Java would be noticed only after other servers have started.
        find_java_home()
        kafka_jars(report)

    @property
    def _folder(self) -> Path:
        return self.site.data("kafka")

    def initialise(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "log4j2.properties").write_text(_LOG4J)
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if (self._folder / "data" / "meta.properties").is_file():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=": a random id may start with "-" and would be taken for an option.
        arguments = ["format", f"--cluster-id={cluster_id}", "--config", str(properties)]
        run_tool([*self._java("256m"), "kafka.tools.StorageTool", *arguments], "preparing Kafka's data folder")

    def _properties(self) -> dict[str, str | int]:
        broker, controller = f"{HOST}:{self.port}", f"{HOST}:{self.site.ports.kafka_controller}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "num.partitions": 1,
            # A misspelt topic must fail, not be created.
            "auto.create.topics.enable": "false",
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            # The default of 50 would cost 50 open logs, and there is only one broker.
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        }

    def _java(self, heap: str) -> list[str]:
        return [
            str(find_java_home() / "bin" / "java"),
            f"-Xmx{heap}",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={(self._folder / 'log4j2.properties').as_uri()}",
            "-cp",
            f"{kafka_jars()}/*",  # Java itself expands this
        ]

    def launch(self) -> Launch:
        argv = [*self._java("512m"), "kafka.Kafka", str(self._folder / "server.properties")]
        return Launch(tuple(argv), {})

    def check(self) -> None:
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0, "socket.timeout.ms": 2000})
        client.list_topics(timeout=2)

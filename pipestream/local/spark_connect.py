"""A Spark Connect server for drains: its command line, and the one of the local stack."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.local.jars import spark_home
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server
from pipestream.local.spark import CONNECT_CORES, SPARK_SERVERS, spark_environment
from pipestream.rpc.spark_connect import ConnectPlace

if TYPE_CHECKING:
    from pipestream.local.tools import Report

_SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105
"""Where Spark looks for the token. Not an option of spark-submit, which everyone on the machine can read."""

# In one process all drains share the threads. As many as four drains (max_leases) of two partitions need: they
# wait for Kafka, for objects and for their Python workers, so they may be more than the cores.
LOCAL_MASTER = "local[8]"

_OPTIONS = {
    "spark.app.name": "pipestream drains",
    # All drains share one session, and each session has a Python daemon that lives as long as the server.
    "spark.connect.session.manager.defaultSessionTimeout": "-1",
    # The query of a client that was killed ends after this. A client whose connection broke is back much earlier.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    "spark.connect.execute.manager.maintenanceInterval": "10s",
    # A worker is forked with everything imported that a drain needs, and serves one task. So modules that were changed
    # are read again, as they are by spark-submit.
    "spark.python.daemon.module": "pipestream_spark.daemon",
    "spark.python.worker.reuse": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": str(Path(__file__).with_name("fair_scheduler.xml")),
    # A speculative copy of a slow task fences the task, and Spark then ends the copy.
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    # What Spark remembers of past queries, with or without its pages, so that its memory does not grow.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.connect.ui.retainedSessions": "20",
    "spark.sql.connect.ui.retainedStatements": "20",
    "spark.log.level": "WARN",
}


def connect_command(host: str, port: int, master: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line of a server. The token is not part of it: see ``TOKEN_VARIABLE``.

    :param options: Spark's configuration, in addition to ours or instead of it.
    """
    given = {
        **_OPTIONS,
        # Spark creates a folder for tables even if there are none, so the setting names one that exists.
        "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).absolute().as_uri(),
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        **options,
    }
    argv = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "--class", _SERVER_CLASS]
    for name, value in given.items():
        argv += ["--conf", f"{name}={value}"]
    return (*argv, "spark-internal")


class SparkConnect(Server):
    """The server of the local stack: on the cluster of the full profile, otherwise in its own process."""

    name = "spark-connect"
    port_names = ("spark_connect",)
    needs = SPARK_SERVERS

    def fetch(self, report: Report) -> None:  # noqa: ARG002
        spark_home()

    @property
    def url(self) -> str:
        return f"sc://{self.address}"

    def initialise(self) -> None:
        (self.site.data("spark") / "scratch").mkdir(parents=True, exist_ok=True)

    def launch(self) -> Launch:
        token = {TOKEN_VARIABLE: self.site.secrets.spark_connect_token}
        if self.site.spec.profile == "full":
            options = {"spark.cores.max": str(CONNECT_CORES), "spark.executor.memory": "512m"}
            command = connect_command(HOST, self.port, f"spark://{HOST}:{self.site.ports.spark}", options)
        else:
            command = connect_command(HOST, self.port, LOCAL_MASTER, {})
        return Launch(command, {**spark_environment(self.site), **token})

    def check(self) -> None:
        ConnectPlace(HOST, self.port, token=self.site.secrets.spark_connect_token).check(timeout_s=10)

"""Sidecars in processes of their own: started, asked, killed and ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from pipestream import faults
from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.gen.ai.pipestream.engine.sidecar.v1 import management_service_pb2 as wire
from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2_grpc import SidecarManagementServiceStub
from pipestream.leases import DesiredState, open_lease_store
from pipestream.leases.store import TopicMode
from pipestream.rpc.channels import open_channel
from pipestream.settings import CONFIG_VARIABLE
from pipestream.topics.required import leased_topics, required_topics
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings
from pipestream_testing.settling import wait_until_settled
from pipestream_testing.waiting import wait_until

_READY = re.compile(r"sidecar (\S+) is ready: managed at (\S+), /metrics and /health at (\S+)")


class SidecarProcess:
    """``pipestream sidecar`` on the graphs of a database."""

    def __init__(self, pipeline: Pipeline, label: str, *arguments: str, fault: str = "") -> None:
        folder = pipeline.graph_file.parent
        config = folder / f"{label}.toml"
        write_settings(config, pipeline.settings)
        environment = {**os.environ, CONFIG_VARIABLE: str(config)}
        if fault:
            environment[faults.VARIABLE] = fault
        command = [sys.executable, "-m", "pipestream.cli.main", "sidecar", "--address", "127.0.0.1:0"]
        self._log = folder / f"{label}.{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--telemetry-port", "0", *arguments], env=environment, stdout=log, stderr=log
            )
        self.config: Path = config

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_ready(self, timeout_s: float = 120) -> None:
        self._wait(lambda: _READY.search(self.log), "it is not ready", timeout_s)
        found = _READY.search(self.log)
        assert found is not None
        self.name, self.address, self.telemetry = found.groups()

    def _wait(self, condition: Any, complaint: str, timeout_s: float) -> None:
        def look() -> bool:
            assert self.process.poll() is None, f"the sidecar ended with {self.process.returncode}: {self.log}"
            return bool(condition())

        wait_until(look, complaint, timeout_s=timeout_s)

    def call(self, method: str, request: Any) -> Any:
        with closing(open_channel(self.address)) as channel:
            return getattr(SidecarManagementServiceStub(channel), method)(request, timeout=60, wait_for_ready=True)

    def leases(self) -> list[wire.LeaseInfo]:
        return list(self.call("GetLeases", wire.GetLeasesRequest()).leases)

    def statuses(self) -> dict[str, str]:
        """Return how each topic is that it holds a slot of."""
        return {lease.topic: lease.status for lease in self.leases()}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, timeout_s: float = 120) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the sidecar has not ended within {timeout_s:g} s: {self.log}") from None


def apply_streaming(pipeline: Pipeline, *topics: str, replicas: int = 1) -> None:
    """Apply a pipeline's graph, with its topics (all, unless named) in streaming mode."""
    settings = pipeline.settings
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
        apply_graph(pipeline.graph, settings, leases, versions, applied_by="test")
        for topic in topics or leased_topics(pipeline.graph):
            leases.set_desired(topic, DesiredState(mode=TopicMode.STREAMING, replicas=replicas))


def holders(pipeline: Pipeline) -> Counter[str]:
    """Return how many slots each process holds."""
    with closing(open_lease_store(pipeline.settings)) as leases:
        return Counter(found.holder for found in leases.assignments() if found.holder)


def wait_drained(pipeline: Pipeline, topics: Iterable[str], timeout_s: float = 120) -> None:
    """Wait until the ledger has everything that is in some topics."""
    topics = list(topics)

    def is_drained() -> bool:
        wait_until_settled(
            pipeline.settings, [spec.name for spec in required_topics(pipeline.graph, pipeline.settings)]
        )
        try:
            for topic in topics:
                pipeline.check_ledger_tiles(topic)
        except AssertionError:
            return False
        return True

    wait_until(is_drained, f"{topics} are not drained", timeout_s=timeout_s, poll_s=0.2)

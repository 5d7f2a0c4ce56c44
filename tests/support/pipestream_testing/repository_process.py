"""A Repository in a process of its own, for tests that call, kill and stop it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from pipestream import faults
from pipestream.deployment.versions import GraphVersions
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

_READY = re.compile(rb"ready: grpc (\S+) http (\S+)")
_START_S = 400.0
_COMMAND = ("repository", "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


def apply_graph(pipeline: Pipeline) -> None:
    """Make a pipeline's graph an applied one."""
    with closing(GraphVersions(pipeline.settings)) as versions:
        versions.save(pipeline.graph, applied_by="test")


class RepositoryProcess:
    """``pipestream repository serve``. A context manager, which ends it."""

    def __init__(
        self, pipeline: Pipeline, folder: Path, fault: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "repository.toml"
        write_settings(config, pipeline.settings)
        self._log = (folder / "repository.log").open("ab")
        variables = os.environ | {CONFIG_VARIABLE: str(config), "COLUMNS": "200"} | dict(environment or {})
        if fault:
            variables[faults.VARIABLE] = fault
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pipestream.cli.main", *_COMMAND],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.log_file = folder / "repository.log"
        self.grpc = self.http = ""
        self._may_die = bool(fault)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        deadline = time.monotonic() + _START_S
        while not self.http:
            line = self._process.stdout.readline()
            if not line and self._may_die:
                break  # at its fault: it publishes what waits before it is ready
            assert line, f"it ended before it was ready: {self.log_file.read_text()}"
            assert time.monotonic() < deadline, self.log_file.read_text()
            if found := _READY.search(line):
                self.grpc = found.group(1).decode()
                self.http = f"http://{found.group(2).decode()}"
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End it as the kernel would."""
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = 120.0) -> int:
        """Ask it to stop, and return its status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout_s)

    def wait(self, timeout_s: float = 120.0) -> int:
        return self._process.wait(timeout_s)

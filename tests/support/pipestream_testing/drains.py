"""Drains in processes of their own: to be killed, stopped, held at a gate and waited for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from pipestream import faults
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

_POLL_S = 0.02


class Gate:
    """Holds a process at a named point until the test has done its worst."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def at(self, point: str, nth: int = 1) -> str:
        """Return the fault that makes a process wait here."""
        return f"{point}=wait:{self._file}@{nth}"

    def is_reached(self) -> bool:
        return Path(f"{self._file}.reached").exists()

    def open(self) -> None:
        Path(f"{self._file}.go").touch()


class DrainProcess:
    """A drain that runs somewhere else."""

    def __init__(self, pipeline: Pipeline, topic: str, run_id: str, fault: str, program: str = "drain_process") -> None:
        folder = pipeline.graph_file.parent
        config = folder / f"{run_id}.toml"
        write_settings(config, pipeline.settings)
        environment = {**os.environ, CONFIG_VARIABLE: str(config)}
        if fault:
            environment[faults.VARIABLE] = fault
        arguments = [str(pipeline.graph_file), topic, run_id]
        # Into a file: a full pipe would hold the process where no fault asked for it.
        self._log = folder / f"{run_id}.{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"pipestream_testing.{program}", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
            )
        self._run_id = run_id

    @property
    def holder(self) -> str:
        """The name under which it holds leases."""
        return f"{self._run_id}@{socket.gethostname()}:{self._process.pid}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait(self, timeout_s: float = 240) -> int:
        """Return the exit code, negative for a signal."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGUSR1)  # it answers with where it is
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            raise AssertionError(f"the drain has not ended within {timeout_s:g} s: {self.log}") from None

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 240) -> None:
        """Wait until something holds, which the drain is to bring about."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self._process.poll() is None, f"the drain ended with {self._process.returncode}: {self.log}"
            assert time.monotonic() < deadline, f"nothing within {timeout_s:g} s: {self.log}"
            time.sleep(_POLL_S)

    def wait_for(self, gate: Gate) -> None:
        self.wait_until(gate.is_reached)

    def wait_until_stopped(self) -> None:
        """Wait until the process has stopped itself, as SIGSTOP does."""
        watched = psutil.Process(self._process.pid)
        self.wait_until(lambda: watched.status() == psutil.STATUS_STOPPED)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it, whatever state it is in."""
        self._process.kill()
        self._process.wait()

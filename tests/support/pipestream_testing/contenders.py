"""Contenders of benchmarks: programs that do one job after the other, each in a process of its own.

A job is a line of JSON on the standard input, its figures are a line of JSON on the standard output. A contender stays
up for a whole run of benchmarks: starting Python takes longer than many a job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pipestream_testing import drain_rivals
from pipestream_testing.rivals import python_of_rivals, rival_script

_PROJECT = Path(__file__).resolve().parents[3]


class Contender:
    """A running contender. It is started by its first job, and again after a job that failed."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, core: int | None = None
    ) -> None:
        """
        :param core: the one core of the machine that it may use.
        """
        self._command = list(command)
        self._core = core
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Do a job, and return its figures."""
        self.begin(job)
        return self.end()

    def begin(self, job: Mapping[str, Any]) -> None:
        """Begin a job, and return at once."""
        if self._process is not None and self._process.poll() is not None:
            self.stop()  # it died after its last answer, which must not fail this job too
        if self._process is None:
            self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            if self._core is not None:
                # All its threads inherit this: it has none yet.
                os.sched_setaffinity(self._process.pid, {self._core})
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """Wait until the job is done, and return its figures."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            answer = self._process.stdout.readline()
            assert answer, f"{self._command} has ended: {self._log_text()}"
            figures: dict[str, Any] = json.loads(answer)
        except BaseException:  # a time limit too: the answer of this job must not become that of the next
            self.stop()
            raise
        return figures

    def stop(self) -> None:
        """End the process; the next job starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _log_text(self) -> str:
        assert self._process is not None
        assert self._log is not None
        self._process.wait(10)
        self._log.seek(0)
        return self._log.read()[-4_000:]


class Contenders:
    """The contenders of a run, by name: those of ``drain_rivals``, and scripts of the rivals' own environment."""

    def __init__(self) -> None:
        self._started: dict[tuple[str, int | None], Contender] = {}

    def product(self, kind: str, *, core: int | None = None, before: str = "") -> Contender:
        """Return a contender of ``drain_rivals``.

        :param before: a checkout of an earlier version to run.
        """
        environment = {"PYTHONPATH": before} if before else {}
        return self._find(kind + before, core, [sys.executable, drain_rivals.__file__, kind], environment)

    def rival(self, script: str) -> Contender:
        """Return a script of the rivals' environment."""
        # Only for the messages: nothing else of the project works in that environment.
        environment = {"PYTHONPATH": str(_PROJECT)}
        return self._find(script, None, [python_of_rivals(), str(rival_script(script))], environment)

    def fresh(self, kind: str) -> Contender:
        """Return a contender of ``drain_rivals`` that has done nothing yet, and is the caller's to stop."""
        return Contender([sys.executable, drain_rivals.__file__, kind])

    def _find(self, name: str, core: int | None, command: list[str], environment: Mapping[str, str]) -> Contender:
        if (name, core) not in self._started:
            self._started[name, core] = Contender(command, environment, core)
        return self._started[name, core]

    def stop(self) -> None:
        for each in self._started.values():
            each.stop()

"""Run a DAG through Airflow to its end, as a child process, and report how its tasks end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pipestream.errors import StackError
from pipestream.local.starter import log_tail

_POLL_S = 0.2
_STOP_TIMEOUT_S = 20.0

# What `airflow dags test` writes when a task starts, changes its state and ends.
_STARTING = re.compile(r"\[DAG TEST\] starting task_id=(\S+)")
_STATE = re.compile(r"\bnew_state=(\w+)")
_END = re.compile(r"\[DAG TEST\] end task task_id=(\S+)")


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A task that started (``state`` is "started") or ended, with the state it ended in."""

    task_id: str
    state: str
    seconds: float = 0.0


class DagLog:
    """Finds the tasks in the log of ``airflow dags test``, which runs one after the other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._current: TaskEvent | None = None
        self._started_at = 0.0

    def feed(self, line: str) -> TaskEvent | None:
        """Take one line; return what it says has happened to a task, if anything."""
        if found := _STARTING.search(line):
            self._current = TaskEvent(found[1], "started")
            self._started_at = self._clock()
            return self._current
        if self._current is None:
            return None
        if found := _STATE.search(line):
            self._current = replace(self._current, state=found[1])
        elif (found := _END.search(line)) and found[1] == self._current.task_id:
            ended, self._current = self._current, None
            # A task that fails before Airflow knows about it has no other state.
            state = "failed" if ended.state == "started" else ended.state
            return TaskEvent(ended.task_id, state, self._clock() - self._started_at)
        return None


def run_dag(dag_id: str, environment: Mapping[str, str], log_file: Path, on_event: Callable[[TaskEvent], None]) -> None:
    """Run a DAG once with ``airflow dags test``, its output in ``log_file``.

    An interruption also ends the run, Spark included.

    :raises StackError: the run failed; the message has the last lines of the log.
    """
    program = Path(sys.executable).parent / "airflow"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [str(program), "dags", "test", dag_id],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A group of its own: Spark's processes are ended together with it, and Ctrl-C reaches us alone.
            start_new_session=True,
        )
    try:
        code = _follow(process, log_file, on_event)
    finally:
        _end_group(process)
    if code:
        raise StackError(f"the run of {dag_id} failed (exit code {code})\n{log_tail(log_file)}")


def _follow(process: subprocess.Popen[bytes], log_file: Path, on_event: Callable[[TaskEvent], None]) -> int:
    events = DagLog()
    rest = ""
    with log_file.open(errors="replace") as log:
        while True:
            code = process.poll()  # before reading: what was written until the end is then read as well
            *lines, rest = (rest + log.read()).split("\n")
            for event in filter(None, map(events.feed, lines)):
                on_event(event)
            if code is not None:
                return code
            time.sleep(_POLL_S)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the process and its children: first by SIGTERM, so that a drain releases its lease."""
    for number, patience_s in ((signal.SIGTERM, _STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        deadline = time.monotonic() + patience_s
        alive = _signal_group(process, number)
        while alive and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            alive = _signal_group(process, 0)
        if not alive:
            return


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Signal the whole group (0 only looks), and say whether anyone is left in it."""
    process.poll()  # an ended leader that nobody has asked about would count as alive
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True

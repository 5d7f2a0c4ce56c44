"""Start, recognise and stop server processes that outlive the command which started them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

# A process is recognised by its pid and start time. psutil derives the start time from clock ticks since
# boot, so two readings of one process differ by less than this.
_SAME_START_S = 1.0
# At the next start, a log larger than this is renamed. It replaces the log that was renamed before.
_LOG_BYTES = 20 * 1024 * 1024
_LOOK_AGAIN_S = 0.05
_STDERR = 2


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process by its pid and start time, so that another process with a reused pid is never mistaken for it."""

    pid: int
    created: float


def start_process(argv: Sequence[str], environment: Mapping[str, str], log_file: Path) -> ProcessRecord:
    """Start a program in a session of its own, with its output appended to ``log_file``.

    This process keeps no handle, because it may end long before its servers do.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if log_file.is_file() and log_file.stat().st_size > _LOG_BYTES:
        log_file.replace(log_file.with_suffix(".old.log"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_file), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited_files()),
        ],
        setsid=True,
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        setsigmask=[],
    )
    return record_process(pid)


def _inherited_files() -> list[int]:
    """Return the open files that this process got from the shell. Those that Python opens are never passed on.

    A server that kept one would hold a lock of ``flock FILE pipestream up``, or a pipe's end, for as long as it runs.
    """
    found = []
    for number in [int(each.name) for each in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # the one of the listing itself is closed by now
            if number > _STDERR and os.get_inheritable(number):
                found.append(number)
    return found


def record_process(pid: int) -> ProcessRecord:
    """Return the record of a process that this process has just started."""
    return ProcessRecord(pid, psutil.Process(pid).create_time())


def find_process(record: ProcessRecord) -> psutil.Process | None:
    """Return the live process of a record; None if it has ended, even if another process has its pid now."""
    try:
        process = psutil.Process(record.pid)
        if abs(process.create_time() - record.created) > _SAME_START_S:
            return None
        if process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.Error:
        return None
    _reap(record.pid)
    return None


def stop_process(record: ProcessRecord, *, stop_signal: int, timeout_s: float) -> bool:
    """Stop a server with all processes it started; return whether it stopped without being killed.

    Asks the server first, and kills what is left after ``timeout_s``. All processes are collected before the first
    signal, because parts of some servers (PostgreSQL, Airflow) run in sessions of their own.
    """
    family = _family(record)
    main = find_process(record)
    if main is not None:
        _signal(main, stop_signal)
    left = _wait_for_end(family, timeout_s)
    _reap(record.pid)
    left += [process for process in _session(record) if process not in left and _runs(process)]
    _kill(left)
    return not left


def kill_process(record: ProcessRecord) -> None:
    """Kill a server with all its processes, as a crash would (SIGKILL)."""
    _kill(_family(record))
    _reap(record.pid)


def kill_child(process: subprocess.Popen[Any]) -> None:
    """Kill a child of this process with everything below it, such as the Python driver below a spark-submit."""
    below: list[psutil.Process] = []
    with suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for each in below:
        _signal(each, signal.SIGKILL)


def _family(record: ProcessRecord) -> list[psutil.Process]:
    """The server first, then everything below it and everything in its session."""
    family: list[psutil.Process] = []
    main = find_process(record)
    if main is not None:
        family = [main]
        with suppress(psutil.Error):
            family += main.children(recursive=True)
    # Also when the server itself has died: what it left behind is still in its session.
    return family + [process for process in _session(record) if process not in family]


def _session(record: ProcessRecord) -> list[psutil.Process]:
    """All live processes of the session the server was started in.

    The system does not reuse a pid while its session exists. So if another process has the pid now, our session is
    gone, and a session of that number is not ours.
    """
    oldest = record.created - _SAME_START_S
    members = []
    for process in psutil.process_iter():
        try:
            if process.pid == record.pid and abs(process.create_time() - record.created) > _SAME_START_S:
                return []
            if os.getsid(process.pid) == record.pid and process.create_time() >= oldest:
                members.append(process)
        except (OSError, psutil.Error):
            continue
    return members


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        _signal(process, signal.SIGKILL)
    _wait_for_end(processes, timeout_s=10)


def _wait_for_end(processes: Sequence[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until processes have ended, and return those that have not.

    Not psutil's wait_procs: for it a process runs until its parent has collected its exit status. The parent may be
    another command that does not do so.
    """
    deadline = time.monotonic() + timeout_s
    while (left := [process for process in processes if _runs(process)]) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)
    return left


def _signal(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _reap(pid: int) -> None:
    """Collect the exit status of a process, if it is a child of ours that has ended."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return

"""Which process started a drain job, and the end of the job when that process is gone.

A task of Airflow that is killed (by the kernel for its memory, or with SIGKILL) cannot stop the job that it started.
The job would keep its lease and drain next to the retry of the task, which would find the lease taken.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

POLL_S = 1.0


def name_caller() -> str:
    """Return this process, as ``watch_caller`` takes it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def watch_caller(caller: str, on_gone: Callable[[], None]) -> threading.Thread | None:
    """Call ``on_gone`` once, from another thread, when the process that ``name_caller`` named is gone.

    Returns the thread; None for a caller on another machine, which cannot be watched from here.
    """
    host, _, pid = caller.rpartition(":")
    if host != socket.gethostname():
        return None
    thread = threading.Thread(target=_watch, args=(int(pid), on_gone), name="watch-caller", daemon=True)
    thread.start()
    return thread


def _watch(pid: int, on_gone: Callable[[], None]) -> None:
    pause = threading.Event()
    while _is_there(pid):
        pause.wait(POLL_S)
    on_gone()


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's, so it is there
        return True
    return True

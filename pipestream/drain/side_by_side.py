"""Run the same work in several threads, and end them all when the run has to end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

_SIGNAL_POLL_S = 0.5


def run_side_by_side(work: Callable[[], None], count: int, interrupt: Callable[[], None]) -> None:
    """Run ``work`` in ``count`` threads and wait for all of them; one is run in this thread.

    An error of one is raised when the others have ended.

    :param interrupt: called when this thread has to end (a signal, Ctrl-C), to make the others end soon. They are
        waited for, because they hold leases to give back.
    """
    if count == 1:
        work()
        return
    # A signal may arrive while the pool starts a thread, and the pool then does not know of that thread and would not
    # wait for it. So the work begins only when all threads are known.
    may_begin, is_called_off = Event(), Event()

    def begin() -> None:
        may_begin.wait()
        if not is_called_off.is_set():
            work()

    with ThreadPoolExecutor(count, thread_name_prefix="slot") as pool:
        try:
            futures = [pool.submit(begin) for _ in range(count)]
            may_begin.set()
            # In slices: a signal that arrives just before this thread sleeps, or that another thread receives, does not
            # wake it up.
            while wait(futures, _SIGNAL_POLL_S).not_done:
                pass
        except BaseException:
            is_called_off.set()
            interrupt()
            may_begin.set()
            raise
    for future in futures:
        future.result()

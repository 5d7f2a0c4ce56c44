"""Stop a Python call that takes too long.

In the main thread of a process (where Spark's workers run their tasks) a timer signal raises inside the call,
which ends loops, sleeps and blocking system calls. In other threads (the gRPC engine's) the call runs in a
thread of its own; when its time is up the caller continues, and the exception is raised in that thread as soon
as it runs Python code again. Neither stops native code that never looks for signals: a module built on such
code belongs behind ``runtime:`` or ``grpc:``, where a deadline always holds.
"""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_Result = TypeVar("_Result")

# Calls left behind in their threads, waiting in native code; each holds its document and its stack.
_MAX_HANGING = 32
_hanging: list[threading.Thread] = []
_hanging_lock = threading.Lock()

# A call that swallowed the exception (a bare `except:`) gets it again after this long.
_AGAIN_S = 1.0


class DeadlineExceeded(Exception):
    """The call took longer than it may."""


class TooManyHanging(Exception):
    """Too many earlier calls still hang, so no more are started."""


class _TimeUp(BaseException):
    """Raised inside the call. It is not an Exception, so that a module's ``except Exception`` does not catch it."""


def call_with_deadline(call: Callable[[], _Result], timeout_s: float) -> _Result:
    """Return what ``call`` returns, within ``timeout_s``.

    :raises DeadlineExceeded: it took longer.
    :raises TooManyHanging: outside the main thread, too many earlier calls have not ended.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    try:
        return _call_in_main(call, timeout_s) if in_main_thread else _call_in_thread(call, timeout_s)
    except _TimeUp:
        raise DeadlineExceeded from None


def _call_in_main(call: Callable[[], _Result], timeout_s: float) -> _Result:
    outer_s, outer_interval_s = signal.getitimer(signal.ITIMER_REAL)
    if 0 < outer_s <= timeout_s:
        return call()  # someone else's alarm rings first and means to be heard
    running = True

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if running:
            raise _TimeUp

    started = time.monotonic()
    outer_handler = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, timeout_s, _AGAIN_S)
        return call()
    finally:
        # First, and without a call, so that no signal can arrive in between: from here on `ring` does nothing.
        running = False
        left_s = max(outer_s - (time.monotonic() - started), 0.001) if outer_s else 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer_handler)
        signal.setitimer(signal.ITIMER_REAL, left_s, outer_interval_s)


def _call_in_thread(call: Callable[[], _Result], timeout_s: float) -> _Result:
    outcome: list[tuple[_Result | None, BaseException | None]] = []

    def run() -> None:
        try:
            try:
                outcome.append((call(), None))
            except BaseException as error:
                outcome.append((None, error))
        except _TimeUp:
            pass  # the interruption came just after the end

    with _hanging_lock:
        _hanging[:] = [thread for thread in _hanging if thread.is_alive()]
        if len(_hanging) >= _MAX_HANGING:
            raise TooManyHanging
    thread = threading.Thread(target=run, name="module-call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        with _hanging_lock:
            _hanging.append(thread)
        _interrupt(thread)
        raise _TimeUp
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _interrupt(thread: threading.Thread) -> None:
    """Ask a thread to end. The answer may take as long as its current native call."""
    if thread.ident is not None and thread.is_alive():
        set_exception: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc
        set_exception(ctypes.c_ulong(thread.ident), ctypes.py_object(_TimeUp))

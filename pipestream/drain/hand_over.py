"""Let work that pushes its results be read as an iterator, with few results between them."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator

HandOver = Callable[[bytes], None]
"""Gives a result to whoever reads, and waits while earlier ones are not taken."""


class _NobodyReads(BaseException):
    """Ends the work when its results are not read any more. Not an ``Exception``, so that nothing retries it."""


class _Exchange:
    """One result at a time on its way from one thread to another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: list[bytes] = []
        self._is_over = False
        self._is_closed = False
        self._error: BaseException | None = None

    def give(self, result: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._ready or self._is_closed)
            if self._is_closed:
                raise _NobodyReads
            self._ready.append(result)
            self._changed.notify_all()

    def end(self, error: BaseException | None) -> None:
        with self._changed:
            self._is_over, self._error = True, error
            self._changed.notify_all()

    def take(self) -> bytes | None:
        """Wait for the next result; None: there are no more. Raises what ended the work."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_over)
            if self._ready:
                self._changed.notify_all()
                return self._ready.pop()
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def handed_over(work: Callable[[HandOver], None], name: str) -> Iterator[bytes]:
    """Run work in a thread, and yield what it hands over, in order. Its error is raised here, after what came before.

    What bounds the memory is that the work waits until its last result but one is taken.
    """
    exchange = _Exchange()

    def run() -> None:
        error: BaseException | None = None
        try:
            work(exchange.give)
        except BaseException as raised:  # raised again in the thread that reads
            error = raised
        exchange.end(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name=name, daemon=True)
    thread.start()
    try:
        while (result := exchange.take()) is not None:
            yield result
    finally:
        exchange.close()
        thread.join()

"""Let the stages of a drain overlap, each in a thread of its own, with the items in order.

``Ahead`` prepares the next items, ``Behind`` finishes the last ones, and ``InFlight`` bounds the bytes between them. An
error of a stage is raised in the thread that uses the stage, at the item's place in the order. Threads run in a copy of
the context of whoever starts them, so that traces and tests know whose they are.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")


class InFlight:
    """The bytes between the first stage and the last. The first stage waits while there are too many."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @property
    def bytes(self) -> int:
        return self._bytes

    def wait_for_room(self, unless: Callable[[], bool] = lambda: False) -> bool:
        """Wait until less than the limit is in flight. Return True when there is room, False when the drain ends.

        :param unless: who is not to wait any more, whatever is in flight. ``look_again`` makes it be asked again.
        """
        if self._bytes < self._limit_bytes and not self._is_closed:
            return True  # the common case, without the lock
        with self._changed:
            self._changed.wait_for(lambda: self._bytes < self._limit_bytes or self._is_closed or unless())
            return not self._is_closed

    def look_again(self) -> None:
        """Let everybody who waits look again whether to wait."""
        with self._changed:
            self._changed.notify_all()

    def add(self, size_bytes: int) -> None:
        """Count more bytes, or fewer if it is negative."""
        with self._changed:
            self._bytes += size_bytes
            if size_bytes < 0:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class Ahead(Generic[Item]):
    """Iterates over a source in a thread: some items wait to be taken while the next one is being made."""

    def __init__(self, source: Iterable[Item], stop: Callable[[], None], name: str, most: int = 1) -> None:
        """
        :param stop: makes the source end soon, also while it waits.
        :param most: how many items may wait.
        """
        self._source = source
        self._stop = stop
        self._changed = threading.Condition()
        self._most = most
        self._ready: deque[Item] = deque()
        self._error: BaseException | None = None
        self._is_over = False
        self._is_closed = False
        self._thread = _start(self._run, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """End the thread, and drop what it has made."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._stop()
        self._thread.join()

    def __iter__(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._is_over)
                if not self._ready:
                    break
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._source:
                if not self._offer(item):
                    break
        except BaseException as raised:  # raised again where the next item is asked for
            error = raised
        with self._changed:
            self._error, self._is_over = error, True
            self._changed.notify_all()

    def _offer(self, item: Item) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._most or self._is_closed)
            if not self._is_closed:
                self._ready.append(item)
                self._changed.notify_all()
            return not self._is_closed


class Behind:
    """Does pieces of work in a thread, in order and one at a time. After one has failed, it does no more."""

    def __init__(self, name: str, on_error: Callable[[], None] = lambda: None) -> None:
        """
        :param on_error: called once when a piece has failed: whoever submits may be waiting for something else.
        """
        self._on_error = on_error
        self._changed = threading.Condition()
        self._work: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread = _start(self._run, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """End the thread, after the piece that it is at."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def submit(self, work: Callable[[], None]) -> None:
        """Wait until the piece before is done, and begin this one.

        A piece that failed raises its error here, and this piece is not done.
        """
        with self._changed:
            self._wait()
            self._work = work
            self._changed.notify_all()

    def wait(self) -> BaseException | None:
        """Wait until everything is done; return the error of the piece that failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._work is None)
            return self._error

    def _wait(self) -> None:
        self._changed.wait_for(lambda: self._work is None)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._work is not None or self._is_closed)
                if self._work is None:
                    return
                work = self._work
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:  # raised again in the thread that asks
                error = raised
            with self._changed:
                self._work, self._error = None, error
                self._changed.notify_all()
            if error is not None:
                self._on_error()
                return


def finish(stages: Sequence[Behind]) -> None:
    """Wait until all stages are done, each of which submits to the next; raise the error of the last that failed.

    A later stage works on an earlier item.
    """
    errors = [stage.wait() for stage in stages]
    for error in reversed(errors):
        if error is not None:
            raise error


def _start(run: Callable[[], None], name: str) -> threading.Thread:
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name=name, daemon=True)
    thread.start()
    return thread

"""How many streams may keep a place in their runner for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Windows:
    """The windows that the streams of a runner have open. Safe to share between threads."""

    def __init__(self, find_most: Callable[[], int]) -> None:
        """
        :param find_most: returns how many may be open at once: fewer than the runner has places, so that a stream
            without a window never waits for the window of another.
        """
        self._find_most = find_most
        self._guard = threading.Lock()
        self._open = 0

    @contextmanager
    def try_open(self, is_wanted: bool) -> Iterator[bool]:
        """Open a window for the time of the block, if it is wanted and one is free, and yield whether it is open."""
        is_open = is_wanted and self._count()
        try:
            yield is_open
        finally:
            if is_open:
                with self._guard:
                    self._open -= 1

    def _count(self) -> bool:
        most = self._find_most()
        with self._guard:
            if self._open >= most:
                return False
            self._open += 1
            return True

"""How long a task has records in hand. Between them it waits for the next ones, which says nothing about their cost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable


class BusyTime:
    """The time of one task, split over its partitions by the records in hand, so that their seconds add up.

    Safe to share between threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._in_hand: Counter[int] = Counter()
        self._seconds: dict[int, float] = {}
        self._counted_until = clock()

    @property
    def in_hand(self) -> int:
        """Return how many records the task has in hand."""
        with self._guard:
            return self._in_hand.total()

    def begin(self, partitions: Iterable[int], since: float | None = None) -> None:
        """Count records as in hand.

        :param partitions: of each of the records.
        :param since: when they were read, by the clock; now, unless given.
        """
        with self._guard:
            if self._in_hand.total():
                self._count()
            else:
                self._counted_until = max(self._counted_until, self._clock() if since is None else since)
            self._in_hand.update(partitions)

    def end(self, partition: int, records: int) -> None:
        """Count records of a partition as done."""
        with self._guard:
            self._count()
            self._in_hand[partition] = max(0, self._in_hand[partition] - records)

    def take(self, partition: int) -> float:
        """Return the seconds of a partition since they were taken last."""
        with self._guard:
            self._count()
            return self._seconds.pop(partition, 0.0)

    def _count(self) -> None:
        now, total = self._clock(), self._in_hand.total()
        for partition, records in self._in_hand.items():
            if records:
                share_s = (now - self._counted_until) * records / total
                self._seconds[partition] = self._seconds.get(partition, 0.0) + share_s
        self._counted_until = now

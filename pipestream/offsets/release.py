"""Put the records of several partitions into one order, by time. Pure: it knows no broker and no clock.

The order is by time, then by topic and partition, then by offset, so the same records always come out the same
way, however the partitions were interleaved on their way here. Within a partition the order of offsets wins: a
record that is older than one before it takes that one's time.

A partition is **live** once it has given all it will (its captured end, or a record at or past the cutoff). Until
then it holds back every record that could come behind one of its own: before it is first heard from, all of them.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipestream.kafka.records import InputRecord, Partition

HELD_BATCHES = 5
# Below every time a record can have; Kafka's "no time" is -1.
_UNHEARD_MS = -(1 << 63)

Record = TypeVar("Record")


@dataclass(slots=True)
class _Queue(Generic[Record]):
    """One partition's part of the buffer. ``last_ms`` never goes back."""

    records: deque[tuple[int, Record]] = field(default_factory=deque)
    last_ms: int = _UNHEARD_MS
    is_live: bool = False
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """Which partitions to stop reading for now, and which to read again."""

    pause: tuple[Partition, ...] = ()
    resume: tuple[Partition, ...] = ()


class ReleaseBuffer(Generic[Record]):
    """Holds records back until no older one can come.

    It holds at most ``max_held`` records, five batches unless given (one per partition, where there are more
    partitions than that), if its user does three things: add at most ``room`` records at a time (one, where there is
    none), apply ``flow`` before reading on, and release all it can before that. A place is kept for every partition
    that is awaited, so the one that the others wait for is never paused, and the buffer can never be stuck.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        *,
        batch_size: int,
        cutoff_ms: int | None = None,
        max_held: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        self._queues: dict[Partition, _Queue[Record]] = {partition: _Queue() for partition in partitions}
        self._batch_size = batch_size
        self._cutoff_ms = cutoff_ms
        self._limit = HELD_BATCHES * batch_size if max_held is None else max_held
        self._held = 0
        # Non-live partitions without a record: what the release waits for.
        self._awaited = set(self._queues)
        # The time and partition of each queue's first record.
        self._heads: list[tuple[int, Partition]] = []

    @property
    def held(self) -> int:
        """Return how many records are held back."""
        return self._held

    @property
    def room(self) -> int:
        """Return how many records fit, whatever partitions they are of; less than none with very many partitions."""
        return self._limit - self._held - len(self._awaited)

    @property
    def is_done(self) -> bool:
        """Tell whether every partition is live and every record released."""
        return not self._awaited and not self._held

    def is_live(self, partition: Partition) -> bool:
        """Tell whether a partition has given all it will."""
        return self._queues[partition].is_live

    def is_paused(self, partition: Partition) -> bool:
        """Tell whether a partition must wait for the others."""
        return self._queues[partition].is_paused

    def held_of(self, partition: Partition) -> int:
        """Return how many records of a partition are held back."""
        return len(self._queues[partition].records)

    def last_ms(self, partition: Partition) -> int | None:
        """Return the latest time seen in a partition, if it was heard from."""
        last_ms = self._queues[partition].last_ms
        return None if last_ms == _UNHEARD_MS else last_ms

    def add(self, partition: Partition, timestamp_ms: int, record: Record) -> None:
        """Take in the next record of a partition."""
        queue = self._queues[partition]
        if queue.is_live:
            raise ValueError(f"{partition[0]}[{partition[1]}] is live and takes no more records")
        queue.last_ms = max(queue.last_ms, timestamp_ms)
        if not queue.records:
            self._awaited.discard(partition)
            heapq.heappush(self._heads, (queue.last_ms, partition))
        queue.records.append((queue.last_ms, record))
        self._held += 1
        if self._cutoff_ms is not None and timestamp_ms >= self._cutoff_ms:
            self.finish(partition)

    def finish(self, partition: Partition) -> None:
        """Take note that a partition is at its end, so that nobody waits for it any more."""
        self._queues[partition].is_live = True
        self._awaited.discard(partition)

    def release(self, most: int) -> list[Record]:
        """Return the next records in order, at most so many: those that nothing still to come can precede."""
        released: list[Record] = []
        frontier = min(((self._queues[p].last_ms, p) for p in self._awaited), default=None)
        while self._heads and len(released) < most and (frontier is None or self._heads[0] < frontier):
            _, partition = self._heads[0]
            queue = self._queues[partition]
            released.append(queue.records.popleft()[1])
            if queue.records:
                heapq.heapreplace(self._heads, (queue.records[0][0], partition))
                continue
            heapq.heappop(self._heads)
            if not queue.is_live:
                self._awaited.add(partition)
                awaited = (queue.last_ms, partition)
                frontier = awaited if frontier is None else min(frontier, awaited)
        self._held -= len(released)
        return released

    def flow(self) -> Flow:
        """Return what to pause and what to resume, and count on it being done.

        Full: everything but the awaited partitions pauses. Less than a batch held: all resume. In between nothing
        changes except for the awaited, because to pause a partition throws away what was fetched of it ahead.
        """
        is_full = self.room <= 0
        is_low = self._held < self._batch_size
        pause: list[Partition] = []
        resume: list[Partition] = []
        for partition, queue in self._queues.items():
            if queue.is_live:
                continue
            if is_full and queue.records and not queue.is_paused:
                pause.append(partition)
            elif queue.is_paused and (not queue.records or (is_low and not is_full)):
                resume.append(partition)
        for partition in (*pause, *resume):
            self._queues[partition].is_paused = not self._queues[partition].is_paused
        return Flow(tuple(pause), tuple(resume))


def sort_arrivals(records: Iterable[InputRecord]) -> list[InputRecord]:
    """Return records that arrived together in the same order as a buffer would."""
    latest_ms: dict[Partition, int] = {}
    keyed = []
    for record in records:
        partition = (record.topic, record.partition)
        latest_ms[partition] = max(record.timestamp_ms, latest_ms.get(partition, record.timestamp_ms))
        keyed.append((latest_ms[partition], partition, record.offset, record))
    return [record for *_, record in sorted(keyed, key=lambda each: each[:3])]

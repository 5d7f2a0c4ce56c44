"""Put the records of several partitions into one order, by time. Pure: it knows no broker and no clock.

The order is by time, then by topic and partition, then by offset, so the same records always come out the same
way, however the partitions were interleaved on their way here. Within a partition the order of offsets wins: a
record that is older than one before it takes that one's time.

A partition is **live** once it has given all it will (its captured end, or a record at or past the cutoff). Until
then it holds back every record that could come behind one of its own: before it is first heard from, all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, count, repeat
from typing import Generic, TypeVar

from pipestream.kafka.records import InputRecord, Partition

HELD_BATCHES = 5
# Below and above every time a record can have; Kafka's "no time" is -1.
_UNHEARD_MS = -(1 << 63)
_NEVER_MS = 1 << 63

Record = TypeVar("Record")


@dataclass(slots=True)
class _Queue(Generic[Record]):
    """One partition's part of the buffer. ``last_ms`` never goes back."""

    rank: int
    """The partition's place among all, by topic and number."""
    entries: list[tuple[int, int, int, Record]] = field(default_factory=list)
    """Time, rank and number of each record, so that entries of all queues compare; the first ``start`` are released."""
    start: int = 0
    merged: int = 0
    """How many entries are in the merged list, too."""
    added: int = 0
    last_ms: int = _UNHEARD_MS
    is_live: bool = False
    is_paused: bool = False

    @property
    def held(self) -> int:
        return len(self.entries) - self.start

    def add(self, times_ms: Sequence[int], records: Iterable[Record]) -> None:
        if times_ms[0] < self.last_ms or times_ms != sorted(times_ms):
            times_ms = list(accumulate(times_ms, max, initial=self.last_ms))[1:]
        # Tuples that are made and compared in C: a Python statement per record would cost more than Kafka's client.
        self.entries += zip(times_ms, repeat(self.rank), count(self.added), records)
        self.added += len(times_ms)
        self.last_ms = times_ms[-1]

    def merge_up_to(self, last_ms: int, rank: int) -> list[tuple[int, int, int, Record]]:
        """Return the next entries that are not behind a time and rank, for the merged list."""
        del self.entries[: self.start]
        self.start, self.merged = 0, self.merged - self.start
        cut = bisect_left(self.entries, (last_ms + (self.rank <= rank),), lo=self.merged)
        found = self.entries[self.merged : cut]
        self.merged = cut
        return found

    def release_up_to(self, entry: tuple[int, int, int, Record]) -> None:
        """Forget the entries up to one of the merged list."""
        last_ms, rank, number, _ = entry
        self.start = bisect_left(self.entries, (last_ms, rank, number + 1), lo=self.start, hi=self.merged)


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

    With ``max_bytes`` it also holds at most so many bytes, but one record per partition more, and what one addition of
    ``room`` records exceeds the mean size of those held.
    """

    def __init__(
        self,
        partitions: Iterable[Partition],
        *,
        batch_size: int,
        cutoff_ms: int | None = None,
        max_held: int | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[Record], int] = lambda _: 0,
    ) -> None:
        """
        :param size_of: returns the bytes of a record; asked only where they are limited.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        self._queues: dict[Partition, _Queue[Record]] = {
            partition: _Queue(rank) for rank, partition in enumerate(sorted(partitions))
        }
        self._batch_size = batch_size
        self._cutoff_ms = cutoff_ms
        self._limit = HELD_BATCHES * batch_size if max_held is None else max_held
        self._held = 0
        # One partition alone waits for no other, so what it holds is always released before it is read on.
        self._max_bytes = max_bytes if len(self._queues) > 1 else None
        self._size_of = size_of
        self._held_bytes = 0
        self._mean_bytes: int | None = None
        # Non-live partitions without a record: what the release waits for.
        self._awaited = set(self._queues)
        # What nothing still to come can precede, in order; the first ``_handed_out`` are released.
        self._merged: list[tuple[int, int, int, Record]] = []
        self._handed_out = 0

    @property
    def held(self) -> int:
        """Return how many records are held back."""
        return self._held

    @property
    def held_bytes(self) -> int:
        """Return how many bytes are held back, if they are limited."""
        return self._held_bytes

    @property
    def room(self) -> int:
        """Return how many records fit, whatever partitions they are of; less than none with very many partitions."""
        room = self._limit - self._held - len(self._awaited)
        return room if self._max_bytes is None else min(room, self._room_in_bytes(self._max_bytes))

    def _room_in_bytes(self, max_bytes: int) -> int:
        """Return how many records of the mean size fit. The awaited need no place here: each adds one in any case."""
        left = max_bytes - self._held_bytes
        if left <= 0:
            return 0
        return 1 if self._mean_bytes is None else max(1, left // self._mean_bytes)

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
        return self._queues[partition].held

    def last_ms(self, partition: Partition) -> int | None:
        """Return the latest time seen in a partition, if it was heard from."""
        last_ms = self._queues[partition].last_ms
        return None if last_ms == _UNHEARD_MS else last_ms

    def add(self, partition: Partition, timestamp_ms: int, record: Record) -> None:
        """Take in the next record of a partition."""
        self.add_all(partition, [timestamp_ms], [record])

    def add_all(self, partition: Partition, times_ms: Sequence[int], records: Sequence[Record]) -> int:
        """Take in the next records of a partition, up to and with the first one at or past the cutoff.

        :return: how many that were.
        """
        queue = self._queues[partition]
        if queue.is_live:
            raise ValueError(f"{partition[0]}[{partition[1]}] is live and takes no more records")
        past = None
        if self._cutoff_ms is not None and max(times_ms) >= self._cutoff_ms:
            past = next(index for index, time_ms in enumerate(times_ms) if time_ms >= self._cutoff_ms)
            times_ms, records = times_ms[: past + 1], records[: past + 1]
        queue.add(times_ms, records)
        self._awaited.discard(partition)
        self._held += len(times_ms)
        if self._max_bytes is not None:
            self._held_bytes += sum(map(self._size_of, records))
            self._mean_bytes = max(1, self._held_bytes // self._held)
        if past is not None:
            self.finish(partition)
        return len(times_ms)

    def finish(self, partition: Partition) -> None:
        """Take note that a partition is at its end, so that nobody waits for it any more."""
        self._queues[partition].is_live = True
        self._awaited.discard(partition)

    def release(self, most: int) -> list[Record]:
        """Return the next records in order, at most so many: those that nothing still to come can precede."""
        if len(self._merged) - self._handed_out < most:
            self._merge()
        released = self._merged[self._handed_out : self._handed_out + most]
        if not released:
            return []
        self._handed_out += len(released)
        self._held -= len(released)
        for partition, queue in self._queues.items():
            if queue.start < queue.merged:
                queue.release_up_to(released[-1])
                if not queue.held and not queue.is_live:
                    self._awaited.add(partition)
        records = [record for _, _, _, record in released]
        if self._max_bytes is not None:
            self._held_bytes -= sum(map(self._size_of, records))
        return records

    def _merge(self) -> None:
        """Merge what may be released by now behind what is merged already, which all of it follows."""
        first_to_come = ((queue.last_ms, queue.rank) for queue in self._queues.values() if not queue.is_live)
        frontier = min(first_to_come, default=(_NEVER_MS, 0))
        del self._merged[: self._handed_out]
        self._handed_out = 0
        runs = [run for queue in self._queues.values() if (run := queue.merge_up_to(*frontier))]
        self._merged += sorted(chain.from_iterable(runs))

    def flow(self) -> Flow:
        """Return what to pause and what to resume, and count on it being done.

        Full: everything but the awaited partitions pauses. Less than a batch held, and as small a share of the bytes:
        all resume. In between nothing changes except for the awaited, because to pause a partition throws away what was
        fetched of it ahead.
        """
        is_full = self.room <= 0
        is_low = self._held < self._batch_size
        if self._max_bytes is not None:
            is_low = is_low and self._held_bytes * HELD_BATCHES < self._max_bytes
        pause: list[Partition] = []
        resume: list[Partition] = []
        for partition, queue in self._queues.items():
            if queue.is_live:
                continue
            if is_full and queue.held and not queue.is_paused:
                pause.append(partition)
            elif queue.is_paused and (not queue.held or (is_low and not is_full)):
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

"""What a stream has drained and the ledger does not know yet.

``G``, the committed offset, is exact after every transaction. ``L``, the ledger's head, follows every few seconds: what
was drained between two entries becomes one entry per partition. If the process dies in between, the next holder finds
``G`` ahead of ``L`` and records the difference. The offset metadata tells it what became of those records, wherever in
this protocol the process died:

1. A chunk is committed. Its metadata has two counts: from the start of the unrecorded part, and from its end.
2. ``take`` hands out that part. Until it is settled the ledger may have it or not, so metadata counts from both ends.
3. The recorder enters it. ``settle`` then forgets it; ``put_back`` joins it to what follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipestream.drain.busy_time import BusyTime
from pipestream.drain.counts import add_tallies, dump_tally, refuse_moved_back
from pipestream.drain.range_task import read_metadata, write_metadata
from pipestream.drain.request import HeldSlot
from pipestream.kafka.broker import Committed
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry, EntryKind, Tally


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of a partition that is drained, and what its records became; ``None`` if that is unknown.

    ``busy_s`` is how long its task had records in hand.
    """

    start: int
    end: int
    tally: Tally | None
    busy_s: float = 0.0

    def followed_by(self, other: _Part) -> _Part:
        return _Part(self.start, other.end, add_tallies(self.tally, other.tally), self.busy_s + other.busy_s)


class Unrecorded:
    """The unrecorded parts of a slot, per partition. Threads drain, and the recorder takes, at the same time."""

    def __init__(
        self,
        slot: HeldSlot,
        starts: Mapping[int, int],
        check_lease: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        :param starts: where the partitions of the slot stand, by the ledger and by Kafka, which agree.
        """
        self.slot = slot
        self.check_lease = check_lease
        self._guard = threading.Lock()
        self._done = {partition: _Part(start, start, Tally()) for partition, start in starts.items()}
        self._taken: dict[int, _Part] = {}
        self._begun = time.monotonic()
        self._total = Tally()
        # A topic in order of time is drained by one task, any other by one task per partition.
        self._tasks = [BusyTime(clock)] if slot.is_ordered else [BusyTime(clock) for _ in starts]
        self._task_of = {p: self._tasks[number % len(self._tasks)] for number, p in enumerate(starts)}
        self._clock = clock
        self._moved_at = clock()
        """When a transaction was committed, or work began where there was none."""

    @property
    def topic(self) -> str:
        return self.slot.request.topic

    @property
    def positions(self) -> dict[int, int]:
        """Return where each partition continues."""
        with self._guard:
            return {partition: part.end for partition, part in self._done.items()}

    @property
    def total(self) -> Tally:
        """Return what became of all records that were drained here, as far as it is known."""
        with self._guard:
            return self._total

    def resume(self, partition: int, committed: Committed) -> int:
        """Continue at the committed offset: an earlier holder may have committed a last transaction meanwhile."""
        with self._guard:
            part = self._done[partition]
            refuse_moved_back(f"{self.topic}[{partition}] {part.end}..", part.end, committed)
            if committed.offset > part.end:
                tally = read_metadata(committed.metadata, part.start)
                self._done[partition] = replace(part, end=committed.offset, tally=tally)
            return self._done[partition].end

    @property
    def age_s(self) -> float:
        """Return how long the pass of these parts has lasted."""
        return time.monotonic() - self._begun

    @property
    def in_flight(self) -> int:
        """Return how many records are being processed."""
        return sum(task.in_hand for task in self._tasks)

    @property
    def stalled_s(self) -> float:
        """Return how long records have been in work here without a commit; 0 if none are, or if a runner has them.

        What a runner commits is seen when its tasks end, and a window may last longer than a server may stall.
        """
        with self._guard:
            return self._clock() - self._moved_at if self.in_flight else 0.0

    def begin(self, partitions: Sequence[int], since: float | None = None) -> None:
        """Note that a chunk is being processed; see ``Counts``."""
        if not partitions:
            return
        with self._guard:
            if not self.in_flight:
                self._moved_at = self._clock()
            self._task_of[partitions[0]].begin(partitions, since)

    def metadata(self, partition: int, tally: Tally) -> str:
        """Return the metadata to commit after a chunk: counted from every place where the head may be by then."""
        with self._guard:
            counted = [(start, add_tallies(before, tally)) for start, before in self._open_starts(partition)]
            # A part may be taken before this chunk is committed, and would end where the chunk starts.
            return write_metadata(*counted, (self._done[partition].end, tally))

    def add(self, partition: int, end: int, tally: Tally | None, busy_s: float | None = None) -> None:
        """Count what was committed.

        :param busy_s: how long its task had records in hand; as ``begin`` and ``add`` tell, unless given.
        """
        if busy_s is None:
            task = self._task_of[partition]
            task.end(partition, tally.records if tally else 0)
            busy_s = task.take(partition)
        with self._guard:
            part = self._done[partition]
            self._done[partition] = part.followed_by(_Part(part.end, end, tally, busy_s))
            self._total += tally or Tally()
            self._moved_at = self._clock()

    def before_next(self) -> tuple[tuple[int, int, str], ...]:
        """Return the starts that a task's metadata has to count from too: see ``RangeTask.unrecorded``."""
        with self._guard:
            return tuple((p, start, dump_tally(tally)) for p in self._done for start, tally in self._open_starts(p))

    def take(self) -> list[Entry]:
        """Return the entries to record now, one per partition that has moved. Settle them, or put them back."""
        with self._guard:
            assert not self._taken, "one recorder takes at a time"
            self._taken = {p: part for p, part in self._done.items() if part.end > part.start}
            for partition, part in self._taken.items():
                self._done[partition] = _Part(part.end, part.end, Tally())
            return [self._entry(partition, part) for partition, part in self._taken.items()]

    def settle(self) -> None:
        """Forget what was taken: the ledger has it."""
        with self._guard:
            self._taken.clear()

    def put_back(self) -> None:
        """Keep what was taken for the next time: the ledger did not get it."""
        with self._guard:
            for partition, part in self._taken.items():
                self._done[partition] = part.followed_by(self._done[partition])
            self._taken.clear()

    def _open_starts(self, partition: int) -> list[tuple[int, Tally | None]]:
        """Return where the ledger's head of a partition may be, and what was drained since; not the very end."""
        done, taken = self._done[partition], self._taken.get(partition)
        starts = [(taken.start, add_tallies(taken.tally, done.tally))] if taken else []
        return [*starts, (done.start, done.tally)] if done.end > done.start else starts

    def _entry(self, partition: int, part: _Part) -> Entry:
        offsets = OffsetRange(self.topic, partition, part.start, part.end)
        return self.slot.entry(offsets, EntryKind.DRAINED, part.tally, part.busy_s)

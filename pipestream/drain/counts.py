"""What became of the records of a task, partition by partition, as its offset metadata and its outcome say it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Protocol

from pipestream.drain.busy_time import BusyTime
from pipestream.drain.range_task import RangeTask, read_metadata, write_metadata
from pipestream.errors import LedgerConflict
from pipestream.kafka.broker import Committed
from pipestream.ledger.entries import Tally

log = logging.getLogger(__name__)


class Counts(Protocol):
    """Follows the transactions of a drain. A bounded drain and a stream keep their counts differently."""

    def resume(self, partition: int, committed: Committed) -> int:
        """Return where to continue, after the drain has fenced every other one and read the committed offset.

        :raises LedgerConflict: the offset lies before the place where the drain was to start.
        """

    def begin(self, partitions: Sequence[int], since: float | None = None) -> None:
        """Note that a chunk is being processed.

        :param partitions: of each of its records.
        :param since: when they were read, by ``time.monotonic``; now, unless given.
        """

    def metadata(self, partition: int, tally: Tally) -> str:
        """Return the metadata to commit with a partition's offset after a chunk that became ``tally``."""

    def add(self, partition: int, end: int, tally: Tally) -> None:
        """Count a chunk whose transaction is committed, and which ends at ``end``."""


class RangeCounts:
    """The counts of a task's ranges, from the start of each."""

    def __init__(self, task: RangeTask) -> None:
        self._ranges = {each.partition: each for each in task.ranges}
        self._unrecorded = [(partition, start, load_tally(text)) for partition, start, text in task.unrecorded]
        self.tallies: dict[int, Tally | None] = {each.partition: Tally() for each in task.ranges}
        self._busy = BusyTime()

    def resume(self, partition: int, committed: Committed) -> int:
        """Continue where the committed transactions end, with the tally of the part that is done."""
        planned = self._ranges[partition]
        refuse_moved_back(str(planned), planned.start, committed)
        if committed.offset > planned.start:
            log.info("%s: an earlier try got to %d; resuming there", planned, committed.offset)
            # Another run may have gone further than this plan; its metadata then counts records that are not ours.
            is_ours = committed.offset <= planned.end
            self.tallies[partition] = read_metadata(committed.metadata, planned.start) if is_ours else None
        return max(planned.start, committed.offset)

    def begin(self, partitions: Sequence[int], since: float | None = None) -> None:
        self._busy.begin(partitions, since)

    def busy_s(self, partition: int) -> float:
        """Return how long the task had records of a partition in hand. Asked once, at its end."""
        return self._busy.take(partition)

    def metadata(self, partition: int, tally: Tally) -> str:
        done = add_tallies(self.tallies[partition], tally)
        earlier = [(start, add_tallies(before, done)) for p, start, before in self._unrecorded if p == partition]
        return write_metadata(*earlier, (self._ranges[partition].start, done))

    def add(self, partition: int, end: int, tally: Tally) -> None:  # noqa: ARG002
        self._busy.end(partition, tally.records)
        self.tallies[partition] = add_tallies(self.tallies[partition], tally)


def add_tallies(one: Tally | None, other: Tally | None) -> Tally | None:
    """Return the sum; ``None`` if a part of it is unknown."""
    return None if one is None or other is None else one + other


def dump_tally(tally: Tally | None) -> str:
    """Return a tally as JSON; empty if it is unknown."""
    return "" if tally is None else json.dumps(asdict(tally))


def load_tally(text: str) -> Tally | None:
    """Return what ``dump_tally`` wrote."""
    return Tally(**json.loads(text)) if text else None


def refuse_moved_back(planned: str, start: int, committed: Committed) -> None:
    """Refuse to drain a range whose group has been moved back before its start.

    :raises LedgerConflict: it was.
    """
    if committed.offset < start:
        raise LedgerConflict(
            f"{planned}: its group's offset is {committed.offset}. An operator moved it back after this was "
            f"planned, or Kafka lost it. If no run continues from there, set it with `pipestream ledger "
            f"rebaseline`; for a backfill, take another id"
        )

"""Decide whether all documents of an hour are drained to their end. Pure.

A record of an intake topic belongs to the hour in which it was written. Behind intake, a document has a new record,
with a later time, in each topic that it passes. So the proof follows the graph, topic by topic:

1. Intake is drained up to the first record that was written after the hour.
2. The ledger says when that place was passed. All that the hour's records became was written before that time.
3. A topic behind intake is drained up to the first record that was written after that time; and so on, to the ends.

Topics that feed each other in a cycle have no such order. They are passed when nothing waits in any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)

Bounds = Mapping[int, int]
"""The first offset of each partition of an intake topic that is not of an hour, or of an earlier one."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition of a drained topic, looked at with a time in mind."""

    head: int
    """Where the graph's live runs continue, in the ledger."""
    end: int
    """Where the partition ends, open transactions included."""
    first_after: int | None
    """The first offset that was written at the time or later; None: there is none yet."""

    @property
    def bound(self) -> int:
        """Return the offset up to which everything was written before the time."""
        return self.end if self.first_after is None else self.first_after


Look = Callable[[str, datetime], Mapping[int, PartitionState]]
"""Returns the partitions of a topic that hold records, for a time."""
Recorded = Mapping[tuple[str, int], Sequence[tuple[int, datetime]]]
"""For each topic and partition the ends of the ledger's ranges, each with the time when it was recorded."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Topics that are passed together: one topic, or those of a cycle."""

    topics: tuple[str, ...]
    fed_by: tuple[str, ...]
    """The topics of earlier stages that these get documents from."""
    is_cycle: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer for one hour."""

    missing: str
    """Why the hour is not complete, for people; empty if it is."""
    bounds: Bounds
    """Where the hour ends in the intake topic; empty if it is not complete."""


def prove_hour(until: datetime, stages: Sequence[Stage], look: Look, recorded: Recorded, grace: timedelta) -> Proof:
    """Say whether the hour that ends at ``until`` is drained to its end.

    The heads that ``look`` returns, and ``recorded``, must have been read before the first end is read. What has passed
    a head then has its results before every end.

    :param stages: the topics that documents of the datasource can reach, in the order of the graph; intake first.
    :param grace: how far the clocks of producers and drains may be apart, and records out of order.
    """
    passed: dict[str, datetime] = {}
    bounds: Bounds | None = None
    for stage in stages:
        cutoff = max([until, *(passed[topic] for topic in stage.fed_by)])
        times = []
        for topic in stage.topics:
            found = look(topic, cutoff + grace)
            for partition, state in sorted(found.items()):
                bound = state.end if stage.is_cycle else state.bound
                if state.head < bound:
                    return Proof(f"{topic}[{partition}] is drained to {state.head} of {bound}", {})
                times += _passed_at(recorded.get((topic, partition), ()), bound)
            if bounds is None:  # of intake, which comes first
                bounds = {partition: state.bound for partition, state in found.items()}
        passed |= dict.fromkeys(stage.topics, max([cutoff, *times]))
    return Proof("", bounds or {})


def _passed_at(ends: Iterable[tuple[int, datetime]], bound: int) -> list[datetime]:
    """Return when the ledger's head reached an offset; empty if no range says so, because it was before them all."""
    return sorted(at for end, at in ends if end >= bound)[:1]


def next_hours(
    last: datetime | None, oldest: datetime | None, now: datetime, grace: timedelta, most: int
) -> list[datetime]:
    """Return the ends of the hours to look at, oldest first.

    :param last: the end of the last hour that was complete; None: no hour was yet.
    :param oldest: when the oldest record that the intake topic holds was written; None: it holds none.
    :param most: not more than so many. The first time these are the newest ones, so that a topic that holds a month
        does not start hundreds of runs.
    """
    newest = (now - grace).replace(minute=0, second=0, microsecond=0)
    if last is not None:
        count = min((newest - last) // HOUR, most)
        return [last + HOUR * (number + 1) for number in range(max(0, count))]
    if oldest is None:
        return []
    first = max(oldest.replace(minute=0, second=0, microsecond=0) + HOUR, newest - HOUR * (most - 1))
    return [first + HOUR * number for number in range(max(0, (newest - first) // HOUR + 1))]


def count_late(
    records: Iterable[tuple[int, int, datetime]], hours: Sequence[tuple[datetime, Bounds]]
) -> Counter[datetime]:
    """Count the records that came after their hour was complete, by the hour's begin.

    :param records: partition, offset and time of each record behind the last complete hour.
    :param hours: the end and the bounds of each hour that is complete now, oldest first. A record before an hour's
        bound, and behind those of the hours before it, should have been written in that hour.
    """
    late: Counter[datetime] = Counter()
    for partition, offset, written_at in records:
        for until, bounds in hours:
            if offset < bounds.get(partition, 0):
                if written_at < until - HOUR:
                    late[written_at.replace(minute=0, second=0, microsecond=0)] += 1
                break
    return late

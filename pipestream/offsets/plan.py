"""Choose the offset ranges one run drains: of which partitions, from which offsets, and how many.

Pure: it reads no broker and no clock, so the same inputs always give the same ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipestream.errors import OffsetsExpired, TopicRewound
from pipestream.kafka.records import OffsetRange, Watermarks


def slot_partitions(slot: int, replicas: int, partitions: int) -> list[int]:
    """Return the partitions (of ``partitions`` in all) that slot ``slot`` of ``replicas`` drains.

    Every partition belongs to exactly one slot. Use the replicas that were desired when the run was
    planned: two runs that planned with different replicas may share a partition, and the producer's
    fencing, not this function, is what settles that.
    """
    if replicas < 1:
        raise ValueError(f"replicas must be positive, not {replicas}")
    if not 0 <= slot < replicas:
        raise ValueError(f"slot must be between 0 and {replicas - 1}, not {slot}")
    if partitions < 0:
        raise ValueError(f"partitions must not be negative, not {partitions}")
    return list(range(slot, partitions, replicas))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where each partition of a topic continues, and what was drained but never recorded."""

    next_offsets: dict[int, int]
    """A partition absent here was never drained."""
    left_behind: tuple[OffsetRange, ...]
    """Ranges whose Kafka transactions hold, of runs that died before the ledger knew."""


def reconcile(
    topic: str,
    watermarks: Mapping[int, Watermarks],
    heads: Mapping[int, int],
    committed: Mapping[int, int],
    begins: Mapping[int, int],
) -> Standing:
    """Find out where a topic stands: compare the ledger's heads (``L``) with the offsets committed in Kafka (``G``).

    A missing ``G`` means ``L``, never "start over": Kafka forgets a quiet group's offsets after a week.
    A missing ``L`` with a ``G`` is a first run that died.

    :param watermarks: of the partitions to compare.
    :param begins: where the range began that each committed offset ends, as far as its metadata says.
    """
    next_offsets: dict[int, int] = {}
    left_behind = []
    for partition, marks in watermarks.items():
        head, done = heads.get(partition), committed.get(partition)
        known = [offset for offset in (head, done) if offset is not None]
        if not known:
            continue
        next_offsets[partition] = max(known)
        begin = begins.get(partition, marks.low) if head is None else head
        if done is not None and done > begin:
            left_behind.append(OffsetRange(topic, partition, begin, done))
    return Standing(next_offsets, tuple(left_behind))


def plan_ranges(
    topic: str, next_offsets: Mapping[int, int], watermarks: Mapping[int, Watermarks], *, budget: int
) -> list[OffsetRange]:
    """Return the ranges of ``topic`` to drain, by partition, holding at most ``budget`` offsets in all.

    The budget is shared evenly, and what one partition leaves unused the others take,
    so a hot partition cannot starve a quiet one.

    :param watermarks: what the broker holds, read once at the start of the run.
    """
    return cut_ranges(find_waiting(topic, next_offsets, watermarks), budget)


def cut_ranges(ranges: Sequence[OffsetRange], budget: int) -> list[OffsetRange]:
    """Return the beginning of each range, by partition, at most ``budget`` offsets in all."""
    if budget < 1:
        raise ValueError(f"budget must be positive, not {budget}")
    cut = []
    left = budget
    # Smallest first, so what a quiet partition leaves is known before a hot one takes.
    for done, whole in enumerate(sorted(ranges, key=len)):
        take = min(len(whole), left // (len(ranges) - done))
        if take:
            cut.append(replace(whole, end=whole.start + take))
            left -= take
    return sorted(cut)


def count_lag(heads: Mapping[int, int], watermarks: Mapping[int, Watermarks]) -> int:
    """Return a topic's lag: how many offsets lie between the ledger's heads and the ends of the partitions.

    Counted from the heads, so that what a dead run did and could not record is not "nothing to do". All that a
    partition without a head holds counts: where a topic that no run has seen yet starts, its first run decides.
    Kafka's transaction markers count as well. A head that the topic does not reach adds nothing.
    """
    return sum(max(0, marks.high - heads.get(partition, marks.low)) for partition, marks in watermarks.items())


def find_waiting(
    topic: str, next_offsets: Mapping[int, int], watermarks: Mapping[int, Watermarks]
) -> list[OffsetRange]:
    """Return what waits, by partition.

    :param next_offsets: next offset to read, per partition; a partition absent here was added since, so that all
        it ever held is still to be read.
    :raises OffsetsExpired: retention deleted offsets that were never drained.
    :raises TopicRewound: the topic ends before what has been drained.
    """
    waiting = []
    for partition, marks in sorted(watermarks.items()):
        start = next_offsets.get(partition, 0)
        if start < marks.low:
            raise OffsetsExpired(topic, partition, start, marks.low)
        if start > marks.high:
            raise TopicRewound(topic, partition, start, marks.high)
        if start < marks.high:
            waiting.append(OffsetRange(topic, partition, start, marks.high))
    return waiting

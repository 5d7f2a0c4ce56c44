"""Choose the offset ranges one run drains.

Pure: it reads no broker and no clock, so the same inputs always give the same ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipestream.errors import OffsetsExpired, TopicRewound
from pipestream.kafka.ranges import OffsetRange, Watermarks


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

    Counted from the heads, so that what a dead run did and could not enter is not "nothing to do". All that a
    partition without a head holds counts: where a topic that no run has seen yet starts, its first run decides.
    Kafka's transaction markers count as well. A head that the topic does not reach is no lag.
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

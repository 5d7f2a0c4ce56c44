"""Choose the offset ranges one run drains.

Pure: it reads no broker and no clock, so the same inputs always give the same ranges.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipestream.errors import OffsetsExpired, TopicRewound
from pipestream.offsets.ranges import OffsetRange, Watermarks


def plan_ranges(
    topic: str, next_offsets: Mapping[int, int], watermarks: Mapping[int, Watermarks], *, budget: int
) -> list[OffsetRange]:
    """Return the ranges of ``topic`` to drain, by partition, holding at most ``budget`` offsets in all.

    The budget is shared evenly, and what one partition leaves unused the others take,
    so a hot partition cannot starve a quiet one.

    :param next_offsets: next offset to read, per partition; a partition absent here is new
        and starts at its low watermark.
    :param watermarks: what the broker holds, read once at the start of the run.
    :raises OffsetsExpired: retention deleted offsets that were never drained.
    :raises TopicRewound: the topic ends before what has been drained.
    """
    if budget < 1:
        raise ValueError(f"budget must be positive, not {budget}")

    backlog = []
    for partition, marks in watermarks.items():
        start = next_offsets.get(partition, marks.low)
        if start < marks.low:
            raise OffsetsExpired(topic, partition, start, marks.low)
        if start > marks.high:
            raise TopicRewound(topic, partition, start, marks.high)
        backlog.append((marks.high - start, partition, start))

    ranges = []
    left = budget
    # Smallest backlog first, so what a quiet partition leaves is known before a hot one takes.
    for done, (pending, partition, start) in enumerate(sorted(backlog)):
        take = min(pending, left // (len(backlog) - done))
        if take:
            ranges.append(OffsetRange(topic, partition, start, start + take))
            left -= take
    return sorted(ranges)

"""Where a topic without a head starts.

The answer moves with time: what is ``latest`` now is not ``latest`` at the next run. So ask once per topic,
keep the answer as the topic's heads, and read a partition that is added later from its first record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from pipestream.errors import OffsetsExpired, RequestInvalid, TerminalError
from pipestream.graph.start import StartAt, StartKind, parse_start
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import Watermarks
from pipestream.times import to_utc, utc_now

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class StartUnknown(TerminalError):
    """A group's committed offsets do not say where to start."""


def start_offsets(
    broker: Broker,
    topic: str,
    watermarks: Mapping[int, Watermarks],
    policy: str | StartAt,
    *,
    clock: Callable[[], datetime] = utc_now,
) -> dict[int, int]:
    """Return the offset each partition starts at, asking the broker what the policy needs.

    :param watermarks: what the partitions hold; every answer lies within.
    :param policy: a ``start_at`` as in a graph (see :func:`pipestream.graph.start.parse_start`), or one already read.
    :param clock: what a duration such as ``PT6H`` counts back from.
    :raises RequestInvalid: the policy cannot be read.
    :raises StartUnknown: the named group has no usable committed offset.
    :raises OffsetsExpired: retention deleted records behind the group's committed offset.
    """
    start = _read(policy)
    found: Mapping[int, int] = {}
    if start.kind is StartKind.COMMITTED:
        found = {p: done.offset for p, done in broker.committed(start.group, topic, watermarks).items()}
    elif (moment := start.moment(clock())) is not None:
        found = broker.offsets_at(topic, watermarks, timestamp_ms_of(moment))
    return resolve_start(start, topic, watermarks, found)


def resolve_start(
    start: StartAt, topic: str, watermarks: Mapping[int, Watermarks], found: Mapping[int, int]
) -> dict[int, int]:
    """Choose the offset each partition starts at. Pure.

    :param found: the group's committed offsets, or the first offsets at or after the time; for the other
        policies, empty.
    """
    if start.kind is StartKind.EARLIEST:
        return {partition: marks.low for partition, marks in watermarks.items()}
    if start.kind is StartKind.LATEST:
        return {partition: marks.high for partition, marks in watermarks.items()}
    if start.kind is StartKind.COMMITTED:
        return _resolve_committed(start.group, topic, watermarks, found)
    # Retention or a producer may have moved either end since the watermarks were read.
    return {
        partition: max(marks.low, min(found.get(partition, marks.high), marks.high))
        for partition, marks in watermarks.items()
    }


def timestamp_ms_of(moment: datetime) -> int:
    """Return the first whole millisecond at or after a time, as Kafka counts; times before 1970 are 0."""
    return max(0, -((EPOCH - to_utc(moment)) // _MILLISECOND))


def _resolve_committed(
    group: str, topic: str, watermarks: Mapping[int, Watermarks], found: Mapping[int, int]
) -> dict[int, int]:
    # An empty partition has only one place to start, so it does not matter that a group has not committed there;
    # a group that never committed anything is more likely a misspelt name.
    unknown = [p for p, marks in watermarks.items() if p not in found and (marks.low < marks.high or not found)]
    if unknown:
        raise StartUnknown(
            f"group {group} has no committed offset for {topic}{unknown}; check the group's name, or start at "
            f"earliest, latest or a time instead"
        )
    for partition, offset in found.items():
        marks = watermarks[partition]
        if offset < marks.low:
            raise OffsetsExpired(topic, partition, offset, marks.low)
        if offset > marks.high:
            raise StartUnknown(
                f"group {group} has committed {offset} for {topic}[{partition}], which ends at {marks.high} for a "
                f"reader of committed records; wait for open transactions to end, or start at earliest, latest "
                f"or a time if the topic was made again"
            )
    return {partition: found.get(partition, marks.low) for partition, marks in watermarks.items()}


def _read(policy: str | StartAt) -> StartAt:
    if isinstance(policy, StartAt):
        return policy
    try:
        return parse_start(policy)
    except ValueError as error:
        raise RequestInvalid(f"start_at: {error}") from None

"""Read ranges in chunks, committed records only, in order of time where there are several.

Transaction markers and aborted records take up offsets too, so the end of a range is known by position, never by
counting records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import TopicPartition

from pipestream.errors import BrokerUnavailable
from pipestream.kafka.broker import Committed, ask_committed
from pipestream.kafka.clients import range_consumer
from pipestream.kafka.errors import explain_errors
from pipestream.kafka.ranges import OffsetRange, Partition
from pipestream.kafka.records import InputRecord
from pipestream.offsets.merge import RangeMerge
from pipestream.settings import Settings

_POLL_S = 0.5


class RangeReader:
    """A consumer on several ranges at once. It joins no group: the ranges were assigned by the plan."""

    def __init__(self, settings: Settings, group: str, ranges: Sequence[OffsetRange]) -> None:
        self._settings = settings
        self._ranges = {(each.topic, each.partition): each for each in ranges}
        if len(self._ranges) != len(ranges):
            raise ValueError("two ranges are of the same partition; give one range per partition")
        self._consumer = range_consumer(settings, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._consumer.close()

    def committed(self) -> dict[Partition, Committed]:
        """Return the group's committed offsets and their metadata; a partition it never committed is absent."""
        wanted = [TopicPartition(*partition) for partition in self._ranges]
        with explain_errors(self._settings, ", ".join(sorted({topic for topic, _ in self._ranges}))):
            return ask_committed(self._consumer, wanted, self._settings.kafka_timeout_s)

    def group_metadata(self) -> Any:
        """Return what a producer needs to commit offsets for this group."""
        return self._consumer.consumer_group_metadata()

    def chunks(
        self, starts: Mapping[Partition, int], size: int
    ) -> Iterator[tuple[list[InputRecord], dict[Partition, int]]]:
        """Yield records in order of time, each chunk with the offsets to commit after it.

        What was handed out of a partition is always all of it up to the offset to commit, so a retry that starts
        there misses nothing and repeats nothing. The last chunk may be empty, and commits the end of every range.
        No more than ``5 * size`` records are held besides a chunk.

        :param starts: where to go on inside a range; absent, at its start.
        :raises OffsetsExpired: retention deleted records of a range before they were read.
        :raises BrokerUnavailable: nothing was heard from the broker for too long.
        """
        left = [
            OffsetRange(*partition, start, each.end)
            for partition, each in self._ranges.items()
            if (start := max(each.start, starts.get(partition, each.start))) < each.end
        ]
        merge = RangeMerge(self._consumer, self._settings, left, batch_size=size)
        while not merge.is_done:
            records = self._fill(merge, size)
            if merge.is_done:
                yield records, {partition: each.end for partition, each in self._ranges.items()}
            else:
                yield records, {(record.topic, record.partition): record.offset + 1 for record in records}

    def _fill(self, merge: RangeMerge, size: int) -> list[InputRecord]:
        records: list[InputRecord] = []
        while len(records) < size and not merge.is_done:
            records += merge.take(size - len(records), _POLL_S)
            if merge.silent_s > self._settings.kafka_timeout_s:
                names = ", ".join(str(each) for each in self._ranges.values())
                raise BrokerUnavailable(f"{names}: nothing heard for {self._settings.kafka_timeout_s:g} s")
        return records

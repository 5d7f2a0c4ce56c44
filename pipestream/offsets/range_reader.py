"""What a task asks of Kafka while it works: read ranges in chunks, and write in transactions.

Only committed records are read, in order of time where there are several ranges.

Transaction markers and aborted records have offsets too, so the end of a range is known by position, never by
counting records. The protocols say all that a task asks, so that ``pipestream_testing`` can run the same tasks on a
model of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import TopicPartition

from pipestream.errors import BrokerUnavailable
from pipestream.kafka.broker import Committed, ask_committed
from pipestream.kafka.clients import range_consumer
from pipestream.kafka.errors import explain_errors
from pipestream.kafka.messages import to_records
from pipestream.kafka.records import InputRecord, OffsetRange, OutputRecord, Partition
from pipestream.kafka.writer import Progress, TransactionalWriter
from pipestream.offsets.merge import RangeMerge
from pipestream.settings import Settings

_POLL_S = 0.5
# Their bytes are counted between two takes.
MOST_AT_ONCE = 1_000
# What is held back waits for older records, and chunks in progress have their own bytes: see ``in_flight_bytes``.
_HELD_SHARE = 4


def _size_of(record: InputRecord) -> int:
    return len(record.value or b"")


class RangeReader:
    """A consumer on several ranges at once. It joins no group: the ranges were assigned by the plan."""

    def __init__(self, settings: Settings, group: str, ranges: Sequence[OffsetRange]) -> None:
        self._settings = settings
        self._ranges = {(each.topic, each.partition): each for each in ranges}
        if len(self._ranges) != len(ranges):
            raise ValueError("two ranges are of the same partition; give one range per partition")
        self._topics = sorted({topic for topic, _ in self._ranges})
        self._consumer = range_consumer(settings, group)
        self._is_stopped = False
        self._knows_leaders = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._consumer.close()

    def committed(self) -> dict[Partition, Committed]:
        """Return the group's committed offsets and their metadata; a partition it never committed is absent."""
        wanted = [TopicPartition(*partition) for partition in self._ranges]
        self._learn_leaders()
        with explain_errors(self._settings, ", ".join(self._topics)):
            return ask_committed(self._consumer, wanted, self._settings.kafka_timeout_s)

    def _learn_leaders(self) -> None:
        """Ask for the topics, once. A client that does not know the leaders yet waits up to a second when it reads."""
        if self._knows_leaders:
            return
        with explain_errors(self._settings, ", ".join(self._topics)):
            for topic in self._topics:
                self._consumer.list_topics(topic, self._settings.kafka_timeout_s)
        self._knows_leaders = True

    def group_metadata(self) -> Any:
        """Return what a producer needs to commit offsets for this group."""
        return self._consumer.consumer_group_metadata()

    def stop(self) -> None:
        """Let ``chunks`` end soon, also while it waits. Called from another thread."""
        self._is_stopped = True

    def chunks(
        self, starts: Mapping[Partition, int], size: int
    ) -> Iterator[tuple[list[InputRecord], dict[Partition, int]]]:
        """Yield records in order of time, each chunk with the offsets to commit after it.

        What was handed out of a partition is always all of it up to the offset to commit, so a retry that starts
        there misses nothing and repeats nothing. The last chunk may be empty, and commits the end of every range.
        A chunk ends early when its records have ``chunk_bytes``. No more than ``5 * size`` records are held besides it,
        and where there are several ranges, no more than a quarter of ``in_flight_bytes`` and a record of each.

        :param starts: where to resume inside a range; absent, at its start.
        :raises OffsetsExpired: retention deleted records of a range before they were read.
        :raises BrokerUnavailable: nothing was heard from the broker for too long.
        """
        left = [
            OffsetRange(*partition, start, each.end)
            for partition, each in self._ranges.items()
            if (start := max(each.start, starts.get(partition, each.start))) < each.end
        ]
        if left:
            self._learn_leaders()
        merge = self._merge(left, size)
        while not merge.is_done:
            records = self._fill(merge, size)
            if self._is_stopped:
                return
            if merge.is_done:
                yield records, {partition: each.end for partition, each in self._ranges.items()}
            else:
                yield records, {(record.topic, record.partition): record.offset + 1 for record in records}

    def _merge(self, ranges: Sequence[OffsetRange], size: int) -> RangeMerge[InputRecord]:
        max_bytes = max(1, self._settings.in_flight_bytes // _HELD_SHARE)
        return RangeMerge(
            self._consumer,
            self._settings,
            ranges,
            to_records,
            batch_size=size,
            max_bytes=max_bytes,
            size_of=_size_of,
        )

    def _fill(self, merge: RangeMerge[InputRecord], size: int) -> list[InputRecord]:
        records: list[InputRecord] = []
        size_bytes = 0
        while len(records) < size and size_bytes < self._settings.chunk_bytes and not merge.is_done:
            if self._is_stopped:
                break
            taken = merge.take(min(size - len(records), MOST_AT_ONCE), _POLL_S)
            records += taken
            size_bytes += sum(map(_size_of, taken))
            if merge.silent_s > self._settings.kafka_timeout_s:
                names = ", ".join(str(each) for each in self._ranges.values())
                raise BrokerUnavailable(f"{names}: nothing heard for {self._settings.kafka_timeout_s:g} s")
        return records


class Writer(Protocol):
    """The one that may write for its partitions until another one starts: see ``TransactionalWriter``."""

    def commit(self, outputs: Sequence[OutputRecord], progress: Iterable[Progress], group_metadata: Any) -> None: ...


class Reader(Protocol):
    """The committed records of some ranges: see ``RangeReader``."""

    def committed(self) -> Mapping[Partition, Committed]: ...

    def chunks(
        self, starts: Mapping[Partition, int], size: int
    ) -> Iterator[tuple[list[InputRecord], dict[Partition, int]]]: ...

    def stop(self) -> None: ...

    def group_metadata(self) -> Any: ...


class RangeBroker(Protocol):
    """Kafka, as far as a task needs it."""

    def start_writer(self, transactional_ids: Sequence[str], topic: str) -> AbstractContextManager[Writer]:
        """Start the one producer that may write under the first id, then fence every producer under the others."""

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> AbstractContextManager[Reader]: ...


class KafkaRangeBroker:
    """The broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def start_writer(self, transactional_ids: Sequence[str], topic: str) -> TransactionalWriter:
        return TransactionalWriter(self._settings, transactional_ids, topic)

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> RangeReader:
        return RangeReader(self._settings, group, ranges)

"""Read topics in order of time, across partitions, into Arrow.

::

    topics = [SourceTopic.from_earliest("events"), SourceTopic.from_relative_time("metrics", ago_ms=3_600_000)]
    config = {"bootstrap.servers": "localhost:9092", "group.id": "my-group"}
    with OrderedReader(config, topics, cutoff_ms=int(time.time() * 1000), batch_size=1_000) as reader:
        while not reader.is_live():
            process(reader.poll(timeout_ms=1_000).to_pandas())
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import Message

from pipestream.errors import RequestInvalid
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import range_consumer
from pipestream.kafka.messages import fetch, place_of, to_record
from pipestream.kafka.plain_config import read_client_config
from pipestream.kafka.records import InputRecord, OffsetRange, Partition
from pipestream.offsets.columns import HEADERS, binary_column, headers_column, number_column, text_column
from pipestream.offsets.merge import RangeMerge, assign
from pipestream.offsets.release import sort_arrivals
from pipestream.offsets.source_topic import SourceTopic
from pipestream.offsets.start import start_offsets
from pipestream.settings import Settings
from pipestream.times import utc_now

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("headers", HEADERS),
    ]
)
# Offsets are assigned, not subscribed to, and never committed: the group is only a name the client insists on.
_GROUP = "pipestream.ordered-reader"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """How far the reader is in one partition."""

    topic: str
    partition: int
    start: int
    end: int
    """Where the partition ended when the reader was made; neither moves."""
    position: int
    """The next offset to read. Records before it may still be held back."""
    timestamp_ms: int | None
    """The latest time seen."""
    is_live: bool
    is_paused: bool
    """Waits for slower partitions."""
    held: int
    """Records that were read and are held back, to be returned in their turn."""


class OrderedReader:
    """Reads committed records of all partitions of some topics, first the past in order, then the present.

    **The past** is what lies between the start and the end that each partition had when the reader was made, or up
    to and with its first record at or past ``cutoff_ms``. It is returned in order of time (then topic, partition
    and offset), as a whole: each partition holds the others back until it is live. Where a partition's own times
    go back, the order of its offsets wins, and its later records count as being of the latest time before them.
    At most ``max_held_messages`` records are held in memory (one per partition, where there are more partitions
    than that); partitions that are ahead are paused meanwhile.

    **The present** follows once all of the past has been returned, from the very next offset of each partition:
    ``is_live()`` is then true, nothing waits any more, and the records that arrive together come in order of time.
    Two polls are not ordered between them, because nobody knows what is still on its way.

    Partitions that are added to a topic later are not read. The reader commits nothing and is not thread-safe.

    :param config: the settings of the product, or a plain client configuration: a dict of librdkafka options with
        ``bootstrap.servers`` and whatever it takes to connect.
    :param cutoff_ms: a time at which a partition counts as caught up, usually now; none for its end alone.
    :param batch_size: most records that one ``poll`` returns.
    :param max_held_messages: most records that are held back; five batches unless given.
    :param clock: what relative times count back from.
    :raises RequestInvalid: what is asked for cannot be; the message says what to change.
    :raises TopicMissing: there is no such topic.
    :raises StartUnknown: a group has no usable committed offset.
    :raises OffsetsExpired: retention deleted records before they were read, here or in ``poll``.
    :raises BrokerUnavailable: the broker did not answer, here or in ``poll``.
    """

    def __init__(
        self,
        config: Settings | Mapping[str, Any],
        topics: Sequence[SourceTopic],
        *,
        cutoff_ms: int | None = None,
        batch_size: int = 1_000,
        max_held_messages: int | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        if len({source.topic for source in topics}) != len(topics) or not topics:
            raise RequestInvalid("topics must name at least one topic, and each only once")
        if batch_size < 1:
            raise RequestInvalid(f"batch_size must be positive, not {batch_size}")
        if max_held_messages is not None and max_held_messages < batch_size:
            raise RequestInvalid(
                f"max_held_messages must be at least batch_size ({batch_size}), not {max_held_messages}"
            )
        settings, group = (config, "") if isinstance(config, Settings) else read_client_config(config)
        topics = [source.for_group(group) for source in topics]
        self._settings = settings
        self._batch_size = batch_size
        self._spans = _capture(Broker(settings), topics, clock)
        self._positions = {partition: start for partition, (start, _) in self._spans.items()}
        self._last_ms: dict[Partition, int] = {}
        self._is_following = False
        self._consumer = range_consumer(settings, group or _GROUP)
        ranges = [OffsetRange(*partition, start, end) for partition, (start, end) in self._spans.items() if start < end]
        self._merge = RangeMerge(
            self._consumer,
            settings,
            ranges,
            list,
            batch_size=batch_size,
            cutoff_ms=cutoff_ms,
            max_held=max_held_messages,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the broker. Nothing can be read any more."""
        self._consumer.close()

    def is_live(self) -> bool:
        """Tell whether all of the past has been returned, so that what comes now is new."""
        return self._merge.is_done

    def poll(self, timeout_ms: int = 1_000) -> pa.RecordBatch:
        """Return up to ``batch_size`` records, or none if there are none to return within the timeout."""
        if not self.is_live():
            messages = self._merge.take(self._batch_size, timeout_ms / 1_000)
            self._positions.update(self._merge.positions)
            return _batch_of(messages)
        return to_batch(self._take_new(timeout_ms / 1_000))

    def partition_state(self) -> list[PartitionState]:
        """Return how far each partition is, by topic and partition."""
        return [self._state(partition) for partition in sorted(self._spans)]

    def _take_new(self, timeout_s: float) -> list[InputRecord]:
        if not self._is_following:
            assign(self._consumer, self._settings, self._positions)
            self._is_following = True
        deadline = time.monotonic() + timeout_s
        records: list[InputRecord] = []
        while not records:
            for message in fetch(self._consumer, self._batch_size, max(0.0, deadline - time.monotonic())):
                partition = place_of(message, self._consumer, self._settings, self._positions)
                if partition is not None and message.error() is None:
                    record = to_record(message)
                    records.append(record)
                    self._positions[partition] = record.offset + 1
                    self._last_ms[partition] = max(record.timestamp_ms, self._timestamp_ms(partition) or 0)
            if time.monotonic() >= deadline:
                break
        return sort_arrivals(records)

    def _state(self, partition: Partition) -> PartitionState:
        start, end = self._spans[partition]
        is_past = partition in self._merge.positions and not self._is_following
        return PartitionState(
            topic=partition[0],
            partition=partition[1],
            start=start,
            end=end,
            position=self._positions[partition],
            timestamp_ms=self._timestamp_ms(partition),
            is_live=not is_past or self._merge.buffer.is_live(partition),
            is_paused=is_past and self._merge.buffer.is_paused(partition),
            held=self._merge.buffer.held_of(partition) if is_past else 0,
        )

    def _timestamp_ms(self, partition: Partition) -> int | None:
        if partition in self._last_ms or partition not in self._merge.positions:
            return self._last_ms.get(partition)
        return self._merge.buffer.last_ms(partition)


def to_batch(records: Sequence[InputRecord]) -> pa.RecordBatch:
    """Return records as Arrow, in the columns of ``SCHEMA``."""
    rows = [
        (each.topic, each.partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers)
        for each in records
    ]
    return _to_batch(*(zip(*rows, strict=True) if rows else [()] * len(SCHEMA)))


def _batch_of(messages: Sequence[Message]) -> pa.RecordBatch:
    """Return messages as Arrow, column by column: a statement per record and column would be most of the work."""

    def column(get: Callable[[Message], Any]) -> list[Any]:
        return list(map(get, messages))

    return _to_batch(
        column(Message.topic),
        column(Message.partition),
        column(Message.offset),
        [time_ms for _, time_ms in map(Message.timestamp, messages)],
        column(Message.key),
        column(Message.value),
        column(Message.headers),
    )


def _to_batch(
    topics: Sequence[str],
    partitions: Sequence[int],
    offsets: Sequence[int],
    times_ms: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None],
) -> pa.RecordBatch:
    columns = [
        text_column(topics),
        number_column(partitions, pa.int32()),
        number_column(offsets, pa.int64()),
        number_column(times_ms, pa.int64()),
        binary_column(keys),
        binary_column(values),
        headers_column(headers),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _capture(
    broker: Broker, topics: Sequence[SourceTopic], clock: Callable[[], datetime]
) -> dict[Partition, tuple[int, int]]:
    """Fix where each partition starts, and where its past ends."""
    now = clock()
    spans: dict[Partition, tuple[int, int]] = {}
    for source in topics:
        partitions = broker.identify(source.topic).partitions
        watermarks = broker.watermarks(source.topic, partitions)
        starts = start_offsets(broker, source.topic, watermarks, source.start, clock=lambda: now)
        spans.update({(source.topic, p): (starts[p], watermarks[p].high) for p in partitions})
    return spans

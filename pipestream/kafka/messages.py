"""What a consumer hands over, as values."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from pipestream.errors import OffsetsExpired
from pipestream.kafka.errors import explain_errors, explain_while, is_end_of_partition, is_expired, is_passing
from pipestream.kafka.records import InputRecord, Partition
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# Who reads is not known here.
_EXPIRED_MEANWHILE = (
    "run again: a live run then says how to continue. A backfill, or an action on dead letters, continues "
    "with what is left under another id"
)


def to_record(message: Message) -> InputRecord:
    """Return a message without an error as a record."""
    raw: Any = message  # the client's stubs allow None for what a record without an error always has
    return InputRecord(
        topic=raw.topic(),
        partition=raw.partition(),
        offset=raw.offset(),
        timestamp_ms=raw.timestamp()[1],
        key=raw.key(),
        value=raw.value(),
        headers=tuple(raw.headers() or ()),
    )


def to_records(messages: Sequence[Message]) -> list[InputRecord]:
    """Return messages without an error as records; for many, half the cost of one after the other."""
    raw: Any = messages
    times = (time_ms for _, time_ms in map(Message.timestamp, raw))
    headers = (tuple(found) if found else () for found in map(Message.headers, raw))
    plain = (map(column, raw) for column in (Message.topic, Message.partition, Message.offset))
    columns = zip(*plain, times, map(Message.key, raw), map(Message.value, raw), headers, strict=True)
    # In C throughout: InputRecord's own constructor is Python.
    return list(map(tuple.__new__, repeat(InputRecord), columns))


def fetch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Return what has arrived, waiting only for the first; ``consume`` alone would wait for them all."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *(consumer.consume(most - 1, timeout=0) if most > 1 else ())]


def place_of(
    message: Message, consumer: Consumer, settings: Settings, positions: Mapping[Partition, int]
) -> Partition | None:
    """Return the partition of a record, or of the event that it is read to its end; None for a passing error.

    :raises OffsetsExpired: retention deleted records before they were read.
    :raises BrokerUnavailable, BrokerRefused: the broker cannot be read, for now or at all.
    """
    error = message.error()
    topic, number = message.topic(), message.partition()
    if error is None or is_end_of_partition(error):
        assert topic is not None
        assert number is not None
        return topic, number
    if is_expired(error) and topic is not None and number is not None:
        with explain_errors(settings, topic):
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=settings.kafka_timeout_s)
        raise OffsetsExpired(topic, number, positions[topic, number], low, _EXPIRED_MEANWHILE)
    if is_passing(error):
        log.warning("%s; the client reconnects by itself", error)
        return None
    raise explain_while(f"reading {_names(positions)}", error)


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(f"{topic}[{number}]" for topic, number in sorted(partitions))

"""What a consumer hands over, as values: records, and the errors among them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

from pipestream.kafka.records import InputRecord

_RECONNECTING = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE)
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


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


def is_end_of_partition(error: KafkaError) -> bool:
    """Tell whether this is no error but the event that a partition is read up."""
    return error.code() == KafkaError._PARTITION_EOF


def is_passing(error: KafkaError) -> bool:
    """Tell whether the client gets over an error by itself, so that the reader only has to be patient."""
    return bool(error.retriable()) or error.code() in _RECONNECTING


def is_gone(error: KafkaError) -> bool:
    """Tell whether the offset that was asked for is not on the broker any more."""
    return error.code() in _GONE


def fetch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Return what has arrived, waiting only for the first; ``consume`` alone would wait for them all."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *(consumer.consume(most - 1, timeout=0) if most > 1 else ())]

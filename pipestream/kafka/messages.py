"""What a consumer hands over, as values."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Message

from pipestream.kafka.records import InputRecord


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


def fetch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Return what has arrived, waiting only for the first; ``consume`` alone would wait for them all."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *(consumer.consume(most - 1, timeout=0) if most > 1 else ())]

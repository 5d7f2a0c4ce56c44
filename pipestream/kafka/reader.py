"""Read one range of a partition in chunks, committed records only: for dead letters, which are not drained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message, TopicPartition

from pipestream.errors import BrokerUnavailable
from pipestream.kafka.clients import range_consumer
from pipestream.kafka.messages import fetch, place_of, to_record
from pipestream.kafka.ranges import OffsetRange
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings

_POLL_S = 0.5


class RangeReader:
    """A consumer on one range. It joins no group: the range was assigned by the plan."""

    def __init__(self, settings: Settings, group: str, offsets: OffsetRange) -> None:
        self._settings = settings
        self._range = offsets
        self._consumer = range_consumer(settings, group)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._consumer.close()

    def group_metadata(self) -> Any:
        """Return what a producer needs to commit offsets for this group."""
        return self._consumer.consumer_group_metadata()

    def chunks(self, start: int, size: int) -> Iterator[tuple[list[InputRecord], int]]:
        """Yield records from ``start`` on, each chunk with the offset to commit after it.

        The last chunk may be empty, and commits the range's end: transaction markers and aborted records
        take up offsets too, so the end is known by position, never by counting records.

        :raises OffsetsExpired: retention deleted records of the range before they were read.
        :raises BrokerUnavailable: nothing was heard from the broker for too long.
        :raises BrokerRefused: the broker refuses to be read.
        """
        self._consumer.assign([self._partition(start)])
        chunk: list[InputRecord] = []
        silent_s = 0.0
        while True:
            asked_at = time.monotonic()
            messages = fetch(self._consumer, size - len(chunk), _POLL_S)
            heard = [message for message in messages if self._is_heard(message)]
            # Only waiting counts, not the time the caller takes over a chunk; and an error is no sign of life.
            silent_s = 0.0 if heard else silent_s + time.monotonic() - asked_at
            if silent_s > self._settings.kafka_timeout_s:
                raise BrokerUnavailable(f"{self._range}: nothing heard for {self._settings.kafka_timeout_s:g} s")
            inside = [message for message in heard if not self._is_behind_end(message)]
            chunk += [to_record(message) for message in inside if message.error() is None]
            if len(inside) < len(heard) or self._position() >= self._range.end:
                yield chunk, self._range.end
                return
            if len(chunk) >= size:
                yield chunk, chunk[-1].offset + 1
                chunk = []

    def _is_heard(self, message: Message) -> bool:
        """Tell whether a message is a record or the event that the partition is read up, not a passing error."""
        starts = {(self._range.topic, self._range.partition): self._range.start}
        return place_of(message, self._consumer, self._settings, starts) is not None

    def _is_behind_end(self, message: Message) -> bool:
        offset = message.offset()
        return offset is not None and offset >= self._range.end

    def _position(self) -> int:
        return int(self._consumer.position([self._partition()])[0].offset)

    def _partition(self, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self._range.topic, self._range.partition, offset)

"""Read several ranges at once and hand their records out in order of time: the Kafka side of the release buffer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Generic, TypeVar

from confluent_kafka import Consumer, Message, TopicPartition

from pipestream.kafka.errors import explain_errors
from pipestream.kafka.messages import fetch, place_of
from pipestream.kafka.records import OffsetRange, Partition
from pipestream.offsets.release import ReleaseBuffer
from pipestream.settings import Settings

log = logging.getLogger(__name__)

Record = TypeVar("Record")


class RangeMerge(Generic[Record]):
    """The records of several ranges, merged. Takes over the consumer's assignment.

    A range is done when the consumer's position reaches its end, never when its last offset is read: transaction
    markers and aborted records have offsets that are never delivered.
    """

    def __init__(
        self,
        consumer: Consumer,
        settings: Settings,
        ranges: Sequence[OffsetRange],
        keep: Callable[[Sequence[Message]], Sequence[Record]],
        *,
        batch_size: int,
        cutoff_ms: int | None = None,
        max_held: int | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[Record], int] = lambda _: 0,
    ) -> None:
        """
        :param keep: returns what is kept of messages, and handed out.
        :param max_held, max_bytes, size_of: limit what is held back; see ``ReleaseBuffer``.
        """
        self._consumer = consumer
        self._settings = settings
        self._keep = keep
        self._ends: dict[Partition, int] = {(each.topic, each.partition): each.end for each in ranges}
        self._positions: dict[Partition, int] = {(each.topic, each.partition): each.start for each in ranges}
        self._batch_size = batch_size
        self.buffer: ReleaseBuffer[Record] = ReleaseBuffer(
            self._ends,
            batch_size=batch_size,
            cutoff_ms=cutoff_ms,
            max_held=max_held,
            max_bytes=max_bytes,
            size_of=size_of,
        )
        self._silent_s = 0.0
        assign(consumer, settings, self._positions)

    @property
    def is_done(self) -> bool:
        """Tell whether every range is read and every record handed out."""
        return self.buffer.is_done

    @property
    def silent_s(self) -> float:
        """Return how long the reader has waited since it last heard from the broker."""
        return self._silent_s

    @property
    def positions(self) -> Mapping[Partition, int]:
        """Return where reading continues, per partition; what is held lies before it."""
        return self._positions

    def take(self, most: int, timeout_s: float) -> list[Record]:
        """Return up to ``most`` records, waiting only while there is none.

        :raises OffsetsExpired: retention deleted records before they were read.
        :raises BrokerUnavailable, BrokerRefused: the broker cannot be read, for now or at all.
        """
        deadline = time.monotonic() + timeout_s
        taken = self.buffer.release(most)
        while len(taken) < most and not self.is_done:
            self._apply_flow()
            wait_s = 0.0 if taken else max(0.0, deadline - time.monotonic())
            asked_at = time.monotonic()
            # Where there is no room all are paused but the awaited, and each of those may add one record.
            messages = fetch(self._consumer, max(1, min(self._batch_size, self.buffer.room)), wait_s)
            waited_s = time.monotonic() - asked_at
            heard = self._feed(messages)
            self._silent_s = 0.0 if heard else self._silent_s + waited_s
            taken += self.buffer.release(most - len(taken))
            if (taken and not messages) or time.monotonic() >= deadline:
                break
        return taken

    def _feed(self, messages: Sequence[Message]) -> int:
        """Take in records and events, and return how many of them came from the broker."""
        events = [message for message in messages if message.error() is not None]
        if events:
            messages = [message for message in messages if message.error() is None]
        places: Any = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
        start = 0
        for partition, run in groupby(places):
            end = start + len(list(run))
            self._feed_records(partition, messages[start:end])
            start = end
        return len(messages) + sum(map(self._feed_event, events))

    def _feed_records(self, partition: Partition, messages: Sequence[Message]) -> None:
        """Take in records of one partition, in the order of their offsets."""
        # A live partition is left alone from its end (or the cutoff) on; a later reader starts there.
        if self.buffer.is_live(partition):
            return
        start, end = self._positions[partition], self._ends[partition]
        offsets: list[Any] = list(map(Message.offset, messages))
        is_past_end = offsets[-1] >= end
        if is_past_end or offsets[0] < start:
            messages = [each for each, offset in zip(messages, offsets, strict=True) if start <= offset < end]
            offsets = [offset for offset in offsets if start <= offset < end]
        if messages:
            times_ms = [time_ms for _, time_ms in map(Message.timestamp, messages)]
            taken = self.buffer.add_all(partition, times_ms, self._keep(messages))
            self._positions[partition] = offsets[taken - 1] + 1
        if is_past_end and not self.buffer.is_live(partition):
            self._positions[partition] = end
        self._settle(partition)

    def _feed_event(self, message: Message) -> bool:
        """Take in an event, and tell whether it came from the broker."""
        partition = place_of(message, self._consumer, self._settings, self._positions)
        offset = message.offset()
        if partition is None or self.buffer.is_live(partition):
            return partition is not None
        assert offset is not None
        if offset >= self._ends[partition]:
            self._positions[partition] = self._ends[partition]
        self._settle(partition)
        return True

    def _settle(self, partition: Partition) -> None:
        """Stop reading a partition that has given all it will."""
        if self._positions[partition] >= self._ends[partition]:
            self.buffer.finish(partition)
        if self.buffer.is_live(partition):
            self._consumer.pause([TopicPartition(*partition)])

    def _apply_flow(self) -> None:
        flow = self.buffer.flow()
        if flow.pause:
            log.debug("%d records held: pausing %s", self.buffer.held, flow.pause)
            self._consumer.pause([TopicPartition(*partition) for partition in flow.pause])
        if flow.resume:
            log.debug("%d records held: resuming %s", self.buffer.held, flow.resume)
            self._consumer.resume([TopicPartition(*partition) for partition in flow.resume])


def assign(consumer: Consumer, settings: Settings, positions: Mapping[Partition, int]) -> None:
    """Read these partitions from these offsets on, and no others."""
    topics = ", ".join(sorted({topic for topic, _ in positions}))
    with explain_errors(settings, topics):
        # A pause outlives its assignment. Resumed first, because to resume goes back to what was last consumed.
        consumer.resume(consumer.assignment())
        consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])

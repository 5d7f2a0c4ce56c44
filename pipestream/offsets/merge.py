"""Read several ranges at once and hand their records out in order of time: the Kafka side of the release buffer."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from pipestream.kafka.errors import explain_errors
from pipestream.kafka.messages import fetch, place_of, to_record
from pipestream.kafka.records import InputRecord, OffsetRange, Partition
from pipestream.offsets.release import ReleaseBuffer
from pipestream.settings import Settings

log = logging.getLogger(__name__)


class RangeMerge:
    """The records of several ranges, merged. Takes over the consumer's assignment.

    A range is done when the consumer's position reaches its end, never when its last offset is read: transaction
    markers and aborted records have offsets that are never delivered.
    """

    def __init__(
        self,
        consumer: Consumer,
        settings: Settings,
        ranges: Sequence[OffsetRange],
        *,
        batch_size: int,
        cutoff_ms: int | None = None,
        max_held: int | None = None,
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._ends: dict[Partition, int] = {(each.topic, each.partition): each.end for each in ranges}
        if len(self._ends) != len(ranges):
            raise ValueError("two ranges are of the same partition; give one range per partition")
        self._positions: dict[Partition, int] = {(each.topic, each.partition): each.start for each in ranges}
        self._batch_size = batch_size
        self.buffer: ReleaseBuffer[InputRecord] = ReleaseBuffer(
            self._ends, batch_size=batch_size, cutoff_ms=cutoff_ms, max_held=max_held
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

    def take(self, most: int, timeout_s: float) -> list[InputRecord]:
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
            heard = sum(self._feed(message) for message in messages)
            self._silent_s = 0.0 if heard else self._silent_s + waited_s
            taken += self.buffer.release(most - len(taken))
            if (taken and not messages) or time.monotonic() >= deadline:
                break
        return taken

    def _feed(self, message: Message) -> bool:
        """Take in a record or an event, and tell whether it came from the broker."""
        partition = place_of(message, self._consumer, self._settings, self._positions)
        # A live partition is left alone from its end (or the cutoff) on; a later reader starts there.
        if partition is None or self.buffer.is_live(partition):
            return partition is not None
        offset = message.offset()
        assert offset is not None
        if message.error() is None and self._positions[partition] <= offset < self._ends[partition]:
            record = to_record(message)
            self._positions[partition] = offset + 1
            self.buffer.add(partition, record.timestamp_ms, record)
        elif offset >= self._ends[partition]:
            self._positions[partition] = self._ends[partition]
        if self._positions[partition] >= self._ends[partition]:
            self.buffer.finish(partition)
        if self.buffer.is_live(partition):
            self._consumer.pause([TopicPartition(*partition)])
        return True

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

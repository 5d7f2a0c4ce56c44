"""Read partitions as their records arrive: the reader of a stream, which has no end but the one it is told.

A range of a stream is open: it starts where the last transaction ended, and its end is ``OPEN_END``. Everything else is
as for a bounded range, so the same drain works on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import TopicPartition

from pipestream.errors import BrokerUnavailable
from pipestream.kafka.errors import explain_errors
from pipestream.kafka.messages import fetch, place_of, to_record
from pipestream.kafka.records import InputRecord, OffsetRange, Partition
from pipestream.offsets.merge import assign
from pipestream.offsets.range_reader import MOST_AT_ONCE, KafkaRangeBroker, RangeReader
from pipestream.settings import Settings

OPEN_END = 2**63 - 1
"""The end of a range that has none: Kafka's largest offset."""

# How soon a reader that waits for records notices that it is to end.
_POLL_S = 0.1
# Transaction markers and aborted records move a partition's end without a record. That alone is worth a transaction
# only after a pause, so that each upstream commit does not cause another one here.
_SETTLE_S = 1.0

Chunk = tuple[list[InputRecord], dict[Partition, int]]


class TailReader(RangeReader):
    """A consumer on open ranges. ``chunks`` hands out what has arrived, without waiting for a chunk to fill."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        ranges: Sequence[OffsetRange],
        is_over: Callable[[], bool],
        *,
        is_ordered: bool = False,
    ) -> None:
        """
        :param is_over: asked several times a second; ``chunks`` ends when it answers yes.
        :param is_ordered: hand out what has arrived in order of time across the partitions.
        """
        super().__init__(settings, group, ranges)
        self._is_over = is_over
        self._is_ordered = is_ordered

    def chunks(self, starts: Mapping[Partition, int], size: int) -> Iterator[Chunk]:
        """Yield records as they arrive, each chunk with the offsets to commit after it, until it is over.

        :raises OffsetsExpired: retention deleted records before they were read.
        """
        positions = {place: max(each.start, starts.get(place, each.start)) for place, each in self._ranges.items()}
        return self._in_order(positions, size) if self._is_ordered else self._as_they_come(positions, size)

    def _as_they_come(self, positions: dict[Partition, int], size: int) -> Iterator[Chunk]:
        assign(self._consumer, self._settings, positions)
        committed = dict(positions)
        idle_since = time.monotonic()
        while not self._is_stopped:
            is_over = self._is_over()
            records = [] if is_over else self._gather(positions, size)
            moved = {place: end for place, end in positions.items() if end > committed[place]}
            if moved and (records or is_over or time.monotonic() - idle_since > _SETTLE_S):
                yield records, moved
                committed |= moved
            if records:
                idle_since = time.monotonic()
            if is_over:
                return

    def _gather(self, positions: dict[Partition, int], size: int) -> list[InputRecord]:
        """Return what has arrived, and move the positions behind it; wait a moment if there is nothing."""
        records: list[InputRecord] = []
        wait_s, size_bytes = _POLL_S, 0
        while (
            len(records) < size
            and size_bytes < self._settings.chunk_bytes
            and (messages := fetch(self._consumer, min(size - len(records), MOST_AT_ONCE), wait_s))
        ):
            for message in messages:
                place = place_of(message, self._consumer, self._settings, positions)
                offset = message.offset()
                if place is None or offset is None or offset < positions[place]:
                    continue
                # At the end of a partition, the event's offset is the one that comes next.
                is_record = message.error() is None
                positions[place] = offset + 1 if is_record else offset
                if is_record:
                    records.append(to_record(message))
                    size_bytes += len(records[-1].value or b"")
            wait_s = 0.0
        return records

    def _in_order(self, positions: dict[Partition, int], size: int) -> Iterator[Chunk]:
        """Order across partitions takes a known end of each, so this goes in passes up to the ends of the moment."""
        while not (self._is_over() or self._is_stopped):
            waiting = [
                OffsetRange(*place, start, end)
                for place, start in positions.items()
                if (end := self._find_end(place)) > start
            ]
            if not waiting:
                time.sleep(_POLL_S)
                continue
            merge = self._merge(waiting, size)
            while not merge.is_done and not self._is_over():
                records = self._fill(merge, size)
                if self._is_stopped:
                    return
                ends = {(record.topic, record.partition): record.offset + 1 for record in records}
                if merge.is_done:
                    ends = {(each.topic, each.partition): each.end for each in waiting}
                positions |= ends
                yield records, ends

    def _find_end(self, place: Partition) -> int:
        """Return where a partition ends for a reader of committed records."""
        with explain_errors(self._settings, place[0]):
            found = self._consumer.get_watermark_offsets(
                TopicPartition(*place), timeout=self._settings.kafka_timeout_s, cached=False
            )
        if found is None:
            raise BrokerUnavailable(f"{place[0]}[{place[1]}]: the broker did not say where it ends")
        return int(found[1])


class TailBroker(KafkaRangeBroker):
    """The broker of the settings, for the tasks of a stream."""

    def __init__(self, settings: Settings, is_over: Callable[[], bool], *, is_ordered: bool) -> None:
        super().__init__(settings)
        self._is_over = is_over
        self._is_ordered = is_ordered

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> TailReader:
        return TailReader(self._settings, group, ranges, self._is_over, is_ordered=self._is_ordered)

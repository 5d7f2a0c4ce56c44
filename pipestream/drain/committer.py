"""Commit processed chunks: store their objects, then send their outputs and the offsets behind them at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pipestream import faults
from pipestream.drain.chunk import ChunkProcessor, ChunkResult
from pipestream.drain.counts import Counts
from pipestream.drain.crash_markers import CrashMarkers
from pipestream.drain.judge import Judge
from pipestream.drain.range_task import RangeTask
from pipestream.engine.carry import RecordResult
from pipestream.engine.follow import retry_policy
from pipestream.engine.storing import store_results
from pipestream.errors import ModuleDown, RecordTooLarge, TransientError
from pipestream.kafka.writer import Progress
from pipestream.offsets.range_reader import Writer
from pipestream.settings import Settings

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Patience:
    """Retries what needs a store that may be away for a moment: an outage of it would fail every record of the chunk.

    That is the object store, for objects and crash markers, and whatever the processing of a record waits for.
    """

    topic: str
    settings: Settings

    def __call__(self, work: Callable[[], Result]) -> Result:
        policy = retry_policy(None, self.settings)
        for attempt in range(1, policy.max_attempts):
            try:
                return work()
            except ModuleDown:
                raise  # its calls have waited already
            except TransientError as error:
                log.warning("%s: try %d of %d: %s", self.topic, attempt, policy.max_attempts, error)
                time.sleep(policy.pause_s(attempt, 0))
        return work()


def store_objects(result: ChunkResult | RecordResult, processor: ChunkProcessor, patiently: Patience) -> None:
    """Store the objects and segments of a chunk, or the objects of a record; see ``store_results``."""
    if isinstance(result, RecordResult):
        store_results([result], (), processor.store, patiently)
    else:
        # Packed once: to repeat a failed put needs the same segments.
        segments = result.pack(processor.packer)
        store_results(list(result), segments, processor.store, patiently)


class Passed(Protocol):
    """Hears of offsets that are committed; see ``CrashMarkers``."""

    def passed(self, ends: Mapping[int, int]) -> None: ...


class ChunkSink(Protocol):
    """Where the stages of a task put its chunks, and what they know of the task."""

    @property
    def task(self) -> RangeTask: ...
    @property
    def processor(self) -> ChunkProcessor: ...
    @property
    def markers(self) -> CrashMarkers: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def judge(self) -> Judge: ...
    @property
    def patiently(self) -> Patience: ...
    @property
    def positions(self) -> Mapping[int, int]:
        """Return where a try that starts now would begin, per partition."""

    def store(self, result: ChunkResult | RecordResult) -> None:
        """Store the objects of a chunk."""

    def commit(self, result: ChunkResult, ends: Mapping[int, int]) -> None:
        """Take a chunk whose objects are stored, and which ends there in each partition."""


Markers = TypeVar("Markers", bound=Passed)


@dataclass(frozen=True, slots=True)
class Committer(Generic[Markers]):
    """Commits the chunks of a task, one after the other."""

    task: RangeTask
    writer: Writer
    group_metadata: Any
    processor: ChunkProcessor
    markers: Markers
    counts: Counts
    judge: Judge
    check_lease: Callable[[], None]
    patiently: Patience
    positions: dict[int, int]
    """Where the committed transactions end, per partition. It moves with each of them."""

    def store(self, result: ChunkResult | RecordResult) -> None:
        """Store objects and segments before the records that refer to them are sent."""
        store_objects(result, self.processor, self.patiently)

    def commit(self, result: ChunkResult, ends: Mapping[int, int]) -> None:
        """Commit a chunk. A record whose output is too large for Kafka is given up; the others are committed.

        :param ends: the offset behind the chunk, per partition.
        :raises RecordTooLarge: Kafka refuses even a dead letter.
        """
        self.check_lease()
        with self.processor.carrier.services.meter.timed("send", self.task.topic):
            while True:
                try:
                    self._send(result, ends)
                    break
                except RecordTooLarge as error:
                    self._give_up(result, result.owner(error.index), error)
        self.markers.passed(ends)
        faults.reach(faults.CHUNK_COMMITTED)

    def _give_up(self, result: ChunkResult, refused: RecordResult, error: RecordTooLarge) -> None:
        # A record that is given up goes to the error-end, if there is one, whose topic may have too small a limit, too.
        if refused.is_given_up and refused.dead_letters:
            raise error
        record = refused.record
        log.error("%s[%d] offset %d is given up: %s", record.topic, record.partition, record.offset, error)
        # If a record was given up before, and the error-end refuses it too, the first reason stays.
        reason = refused.error if refused.is_given_up else None
        done = self.processor.give_up(record, reason or error, attempts=1, as_dead_letter=refused.is_given_up)
        self.store(done)
        result.put(done)
        if refused.error is None:
            self.judge.count_given_up(result)

    def _send(self, result: ChunkResult, ends: Mapping[int, int]) -> None:
        """Send a chunk's outputs with the new offset of every partition that moved."""
        # A range that an earlier try finished does not move, and never moves back.
        moved = {partition: end for partition, end in ends.items() if end > self.positions[partition]}
        tallies = {partition: result.tally(partition) for partition in moved}
        progress = [Progress(p, end, self.counts.metadata(p, tallies[p])) for p, end in moved.items()]
        self.writer.commit(result.outputs, progress, self.group_metadata)
        self.positions.update(moved)
        for partition, end in moved.items():
            self.counts.add(partition, end, tallies[partition])

"""Drain ranges of a topic: what a Spark task runs, and what a stream runs on ranges without an end.

Exactly once, whatever dies when:

1. Start the partition's transactional producer. That fences every earlier one and aborts what it left open.
2. Only then read the committed offset: nobody else can move it any more. Start there.
3. Per chunk: read, set a crash marker, hydrate, process, store objects (their names are derived, so twice is once),
   then in one transaction send the outputs, the dead letters and the new offset.

No record stops those behind it: a record that crashes the process, or whose output Kafka refuses, is given up. That
happens inside the same chunk and the same transaction.
"""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from pipestream import faults
from pipestream.drain.chunk import ChunkProcessor, ChunkResult, chunk_processor
from pipestream.drain.counts import Counts, RangeCounts
from pipestream.drain.crash_markers import CrashMarkers
from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.engine.carry import RecordResult
from pipestream.engine.follow import retry_policy
from pipestream.engine.handoff import open_handoff
from pipestream.engine.services import open_services
from pipestream.errors import (
    Concern,
    ModuleDown,
    PipestreamError,
    ProcessDied,
    RangeMostlyFailing,
    RecordTooLarge,
    TransientError,
)
from pipestream.graph.flow import fused_with
from pipestream.graph.proto import restore
from pipestream.kafka.records import InputRecord
from pipestream.kafka.writer import Progress
from pipestream.objects.store import open_store
from pipestream.offsets.range_reader import KafkaRangeBroker, RangeBroker, Reader, Writer
from pipestream.settings import Settings
from pipestream.topics.named import record_named_topics

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# A stream judges at least so many times the records that it needs to judge at all.
_RECENT_MINIMA = 10


def drain_ranges(
    task: RangeTask,
    settings: Settings,
    check_lease: Callable[[], None] = lambda: None,
    broker: RangeBroker | None = None,
) -> list[RangeOutcome]:
    """Drain a task's ranges and say how far each got.

    An error of ours is part of the answer rather than raised, so that what was done before it is recorded.

    :param check_lease: raises when the run should stop; asked before every transaction.
    :param broker: another than the one of the settings; a model of one, in tests.
    """
    started = time.monotonic()
    counts = RangeCounts(task)
    drain = _RangeDrain(task, settings, broker or KafkaRangeBroker(settings), check_lease, counts)
    error: PipestreamError | None = None
    try:
        drain.run()
    except PipestreamError as raised:
        log.warning("%s stopped at %s: %s", task.topic, drain.positions, raised)
        error = raised
    seconds = time.monotonic() - started
    return [
        RangeOutcome(
            topic=task.topic,
            partition=each.partition,
            start=each.start,
            end=min(drain.positions[each.partition], each.end),
            tally=counts.tallies[each.partition],
            # Several ranges share the task's time, so that a topic's seconds add up.
            seconds=seconds / len(task.offsets),
            error=str(error) if error else "",
            transient=error is not None and error.transient,
            concerns=Concern.RANGE if error is None else error.concerns,
        )
        for each in task.ranges
    ]


def follow_ranges(
    task: RangeTask, settings: Settings, check_lease: Callable[[], None], broker: RangeBroker, counts: Counts
) -> None:
    """Drain a task's ranges as their records arrive, until the broker's reader ends, with everything kept open.

    :param counts: told of every committed transaction.
    :raises PipestreamError: what ended it early; what was committed before is counted.
    """
    recent = max(settings.chunk_records, _RECENT_MINIMA * settings.failing_minimum)
    _RangeDrain(task, settings, broker, check_lease, counts, judged_records=recent).run()


class _RangeDrain:
    """One pass over a task's ranges. ``positions`` is where the committed transactions end, per partition."""

    def __init__(
        self,
        task: RangeTask,
        settings: Settings,
        broker: RangeBroker,
        check_lease: Callable[[], None],
        counts: Counts,
        *,
        judged_records: int | None = None,
    ) -> None:
        """
        :param judged_records: over how many records to judge whether most of them fail; over all, unless given.
        """
        self.task = task
        self._broker = broker
        self.settings = settings
        self._check_lease = check_lease
        self._counts = counts
        self._judged_records = judged_records
        self.positions = {each.partition: each.start for each in task.ranges}
        self._seen = 0
        self._failed = 0

    def run(self) -> None:
        task, settings = self.task, self.settings
        version = restore(b64decode(task.graph))
        with ExitStack() as stack:
            store = stack.enter_context(open_store(settings.store_uri, settings))
            self._patiently(partial(record_named_topics, store, version.graph, settings))
            if task.engine:
                version, opened = open_handoff(version, settings, task.node_id, task.engine, bool(task.datasource_id))
            else:
                opened = open_services(version, settings, fused_with(version.graph, task.node_id), store)
            graph, services = version.graph, stack.enter_context(opened)
            writer = stack.enter_context(self._broker.start_writer(task.transactional_ids, task.topic))
            reader = stack.enter_context(self._broker.open_reader(task.group, task.ranges))
            # A group that was quiet for long has no committed offset any more; then the plan's start still holds.
            for (_, partition), committed in reader.committed().items():
                self.positions[partition] = self._counts.resume(partition, committed)
            markers = stack.enter_context(CrashMarkers(store, task, version.digest, self._patiently))
            markers.read(self.positions)
            processor = chunk_processor(task, graph, services, store, settings)
            starts = {(task.topic, partition): position for partition, position in self.positions.items()}
            for records, ends in reader.chunks(starts, settings.chunk_records):
                self._counts.begin([record.partition for record in records])
                result = self._process(processor, markers, records)
                faults.reach(faults.CHUNK_PROCESSED)
                with services.meter.timed("dispatch"):
                    self._patiently(partial(store.put_many, list(result.objects.items())))
                offsets = {partition: end for (_, partition), end in ends.items()}
                self._check_lease()
                with services.meter.timed("send", task.topic):
                    self._commit_giving_up(processor, partial(self._commit, writer, reader, result, offsets), result)
                self._judge_further(result)
                markers.passed(offsets)
                faults.reach(faults.CHUNK_COMMITTED)

    def _process(self, processor: ChunkProcessor, markers: CrashMarkers, records: Sequence[InputRecord]) -> ChunkResult:
        starts = {record.partition: self.positions[record.partition] for record in records}
        if markers.are_suspect(starts):
            result = self._process_carefully(processor, markers, records)
        else:
            markers.begin(starts)
            result = self._patiently(partial(processor.process, records))
        self._refuse_if_mostly_failing(result)
        return result

    def _process_carefully(
        self, processor: ChunkProcessor, markers: CrashMarkers, records: Sequence[InputRecord]
    ) -> ChunkResult:
        """Process a chunk that an earlier try died in: one record at a time, each named in the marker before it begins.

        Each record's objects are stored at once and not held, because the earlier try may have run out of memory.
        """
        log.warning(
            "%s: an earlier try died after %s; continuing one record at a time", self.task.topic, self.positions
        )
        result = ChunkResult()
        for record in records:
            markers.approach(record, self.positions[record.partition])
            done = self._process_suspect(processor, record, markers.deaths(record))
            self._patiently(partial(processor.store.put_many, list(done.objects.items())))
            done.objects.clear()
            result.put(done)
        markers.leave()
        return result

    def _process_suspect(self, processor: ChunkProcessor, record: InputRecord, deaths: int) -> RecordResult:
        node_id = self.task.node_id
        policy = retry_policy(processor.entrance.graph.node_by_id.get(node_id), self.settings)
        # The first try that died counts as well, but which record it died at is not known.
        if deaths < max(1, policy.max_attempts - 1):
            return self._patiently(partial(processor.process_one, record))
        error = ProcessDied(fused_with(processor.entrance.graph, node_id), deaths)
        log.error("%s[%d] offset %d is given up: %s", record.topic, record.partition, record.offset, error)
        return processor.give_up(record, error, attempts=deaths + 1)

    def _commit_giving_up(self, processor: ChunkProcessor, commit: Callable[[], None], result: ChunkResult) -> None:
        """Commit a chunk. A record whose output is too large for Kafka is given up; the others are committed.

        :raises RecordTooLarge: Kafka refuses even a dead letter.
        """
        while True:
            try:
                return commit()
            except RecordTooLarge as error:
                refused = result.owner(error.index)
                done = self._give_up_too_large(processor, refused, error)
                self._patiently(partial(processor.store.put_many, list(done.objects.items())))
                result.put(done)
                self._refuse_if_mostly_failing(result)

    def _give_up_too_large(
        self, processor: ChunkProcessor, refused: RecordResult, error: RecordTooLarge
    ) -> RecordResult:
        # A record that is given up goes to the error-end, if there is one, whose topic may have too small a limit, too.
        if refused.is_given_up and refused.dead_letters:
            raise error
        record = refused.record
        log.error("%s[%d] offset %d is given up: %s", record.topic, record.partition, record.offset, error)
        # If a record was given up before, and the error-end refuses it too, the first reason stays.
        reason = refused.error if refused.is_given_up else None
        return processor.give_up(record, reason or error, attempts=1, as_dead_letter=refused.is_given_up)

    def _commit(self, writer: Writer, reader: Reader, result: ChunkResult, ends: Mapping[int, int]) -> None:
        """Send a chunk's outputs with the new offset of every partition that moved."""
        # A range that an earlier try finished does not move, and never moves back.
        moved = {partition: end for partition, end in ends.items() if end > self.positions[partition]}
        tallies = {partition: result.tally(partition) for partition in moved}
        progress = [Progress(p, end, self._counts.metadata(p, tallies[p])) for p, end in moved.items()]
        writer.commit(result.outputs, progress, reader.group_metadata())
        self.positions |= moved
        for partition, end in moved.items():
            self._counts.add(partition, end, tallies[partition])

    def _judge_further(self, result: ChunkResult) -> None:
        """Count a committed chunk towards the share of records that fail."""
        if self._judged_records is not None and self._seen >= self._judged_records:
            self._seen = self._failed = 0  # a stream runs for months: what fails now is what matters
        self._seen += len(result)
        self._failed += result.failed

    def _refuse_if_mostly_failing(self, result: ChunkResult) -> None:
        seen, failed = self._seen + len(result), self._failed + result.failed
        if self.task.accept_failures or seen < self.settings.failing_minimum:
            return
        if failed > self.settings.failing_share * seen:
            ranges = ", ".join(map(str, self.task.ranges))
            raise RangeMostlyFailing(ranges, failed, seen, result.last_error)

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Retry work on the object store: an outage of it would fail every record of the chunk."""
        policy = retry_policy(None, self.settings)
        for attempt in range(1, policy.max_attempts):
            try:
                return work()
            except ModuleDown:
                raise  # its calls have waited already
            except TransientError as error:
                log.warning("%s: try %d of %d: %s", self.task.topic, attempt, policy.max_attempts, error)
                time.sleep(policy.pause_s(attempt, 0))
        return work()

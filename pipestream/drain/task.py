"""Drain ranges of a topic: what a Spark task runs.

Exactly once, whatever dies when:

1. Start the partition's transactional producer. That fences every earlier one and aborts what it left open.
2. Only then read the committed offset: nobody else can move it any more. Start there.
3. Per chunk: read, hydrate, process, store objects (their names are derived, so twice is once), then in one
   transaction send the outputs, the dead letters and the new offset.
"""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from pipestream import faults
from pipestream.documents.store import open_store
from pipestream.drain.broker import Committed
from pipestream.drain.chunk import ChunkProcessor, ChunkResult
from pipestream.drain.model import RangeOutcome, RangeTask
from pipestream.drain.note import read_note, write_note
from pipestream.drain.writer import Progress, TransactionalWriter
from pipestream.engine.follow import retry_policy
from pipestream.engine.services import open_services
from pipestream.errors import PipestreamError, RangeMostlyFailing, TransientError
from pipestream.graph.hashing import graph_hash
from pipestream.graph.proto import from_kept
from pipestream.ledger.model import Tally
from pipestream.offsets.ordered_ranges import OrderedRangeReader
from pipestream.settings import Settings

log = logging.getLogger(__name__)

Result = TypeVar("Result")


def drain_ranges(task: RangeTask, settings: Settings) -> list[RangeOutcome]:
    """Drain a task's ranges and say how far each got.

    An error of ours is part of the answer rather than raised, so that what was done before it is entered.
    """
    started = time.monotonic()
    drain = _RangeDrain(task, settings)
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
            tally=drain.tallies[each.partition],
            # Several ranges share the task's time, so that a topic's seconds add up.
            seconds=seconds / len(task.offsets),
            error=str(error) if error else "",
            error_kind=type(error).__name__ if error else "",
            transient=isinstance(error, TransientError),
        )
        for each in task.ranges
    ]


class _RangeDrain:
    """One pass over a task's ranges. ``positions`` is where the committed transactions end, per partition."""

    def __init__(self, task: RangeTask, settings: Settings) -> None:
        self.task = task
        self.settings = settings
        self.ranges = {each.partition: each for each in task.ranges}
        self.positions = {each.partition: each.start for each in task.ranges}
        self.tallies: dict[int, Tally | None] = {each.partition: Tally() for each in task.ranges}
        self._seen = 0
        self._failed = 0

    def run(self) -> None:
        task, settings = self.task, self.settings
        graph = from_kept(b64decode(task.graph), source=f"plan of {task.topic}")
        with ExitStack() as stack:
            store = stack.enter_context(open_store(settings.store_uri, settings))
            services = stack.enter_context(open_services(graph, settings, task.node_id))
            writer = stack.enter_context(TransactionalWriter(settings, task.transactional_ids, task.topic))
            reader = stack.enter_context(OrderedRangeReader(settings, task.group, task.ranges))
            for (_, partition), committed in reader.committed().items():
                self._take_up(partition, committed)
            processor = ChunkProcessor(task, graph, graph_hash(graph), services, store, settings)
            starts = {(task.topic, partition): position for partition, position in self.positions.items()}
            for records, ends in reader.chunks(starts, settings.chunk_records):
                result = self._patiently(partial(processor.process, records))
                self._refuse_if_mostly_failing(result, len(records))
                faults.reach(faults.CHUNK_PROCESSED)
                self._patiently(partial(store.put_many, list(result.objects.items())))
                self._commit(writer, reader, result, {partition: end for (_, partition), end in ends.items()})
                faults.reach(faults.CHUNK_COMMITTED)

    def _take_up(self, partition: int, committed: Committed) -> None:
        """Start where the committed transactions end, with the tally of the part that is done.

        A group that was quiet for long has no committed offset any more; then the plan's start still holds.
        """
        planned = self.ranges[partition]
        if committed.offset > planned.start:
            log.info("%s: an earlier try got to %d, going on there", planned, committed.offset)
            self.positions[partition] = committed.offset
            # Another run may have gone further than this plan; its note then counts records that are not ours.
            is_ours = committed.offset <= planned.end
            self.tallies[partition] = read_note(committed.note, planned.start) if is_ours else None

    def _commit(
        self, writer: TransactionalWriter, reader: OrderedRangeReader, result: ChunkResult, ends: Mapping[int, int]
    ) -> None:
        """Send a chunk's outputs with the new offset of every partition that moved."""
        # A range that an earlier try finished does not move, least of all back.
        moved = {partition: end for partition, end in ends.items() if end > self.positions[partition]}
        tallies = {p: None if (done := self.tallies[p]) is None else done + result.tally(p) for p in moved}
        progress = [
            Progress(p, end, write_note(self.ranges[p].start, tally) if (tally := tallies[p]) else "")
            for p, end in moved.items()
        ]
        writer.commit(result.outputs, progress, reader.group_metadata())
        self.positions |= moved
        self.tallies |= tallies

    def _refuse_if_mostly_failing(self, result: ChunkResult, records: int) -> None:
        self._seen += records
        self._failed += result.failed
        if self.task.accept_failures or self._seen < self.settings.failing_minimum:
            return
        if self._failed > self.settings.failing_share * self._seen:
            raise RangeMostlyFailing(
                self.task.topic, self.task.offsets[0][0], self._failed, self._seen, result.last_error
            )

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Retry work on the object store, whose outage would fail every record of the chunk alike."""
        policy = retry_policy(None, self.settings)
        for attempt in range(1, policy.max_attempts):
            try:
                return work()
            except TransientError as error:
                log.warning("%s: try %d of %d: %s", self.task.topic, attempt, policy.max_attempts, error)
                time.sleep(policy.pause_s(attempt, 0))
        return work()

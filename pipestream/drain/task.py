"""Drain one range: what a Spark task runs.

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
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from pipestream import faults
from pipestream.documents.store import open_store
from pipestream.drain.chunk import ChunkProcessor, ChunkResult
from pipestream.drain.model import RangeOutcome, RangeTask
from pipestream.drain.note import read_note, write_note
from pipestream.drain.reader import RangeReader
from pipestream.drain.writer import TransactionalWriter
from pipestream.engine.follow import retry_policy
from pipestream.engine.services import open_services
from pipestream.errors import PipestreamError, RangeMostlyFailing, TransientError
from pipestream.graph.hashing import graph_hash
from pipestream.graph.proto import from_kept
from pipestream.ledger.model import Tally
from pipestream.settings import Settings

log = logging.getLogger(__name__)

Result = TypeVar("Result")


def drain_range(task: RangeTask, settings: Settings) -> RangeOutcome:
    """Drain a range and say how far it got.

    An error of ours is part of the answer rather than raised, so that what was done before it is entered.
    """
    started = time.monotonic()
    drain = _RangeDrain(task, settings)
    error: PipestreamError | None = None
    try:
        drain.run()
    except PipestreamError as raised:
        log.warning("%s stopped at %d: %s", task.range, drain.position, raised)
        error = raised
    return RangeOutcome(
        topic=task.topic,
        partition=task.partition,
        start=task.start,
        end=min(drain.position, task.end),
        tally=drain.tally,
        seconds=time.monotonic() - started,
        error=str(error) if error else "",
        error_kind=type(error).__name__ if error else "",
        transient=isinstance(error, TransientError),
    )


class _RangeDrain:
    """One pass over one range. ``position`` is where the committed transactions end."""

    def __init__(self, task: RangeTask, settings: Settings) -> None:
        self.task = task
        self.settings = settings
        self.position = task.start
        self.tally: Tally | None = Tally()
        self._seen = 0
        self._failed = 0

    def run(self) -> None:
        task, settings = self.task, self.settings
        graph = from_kept(b64decode(task.graph), source=f"plan of {task.range}")
        with ExitStack() as stack:
            store = stack.enter_context(open_store(settings.store_uri, settings))
            services = stack.enter_context(open_services(graph, settings, task.node_id))
            writer = stack.enter_context(TransactionalWriter(settings, task.transactional_id, task.range))
            reader = stack.enter_context(RangeReader(settings, task.group, task.range))
            self._take_up(*reader.committed())
            if self.position >= task.end:
                return
            processor = ChunkProcessor(task, graph, graph_hash(graph), services, store, settings)
            for records, end in reader.chunks(self.position, settings.chunk_records):
                result = self._patiently(partial(processor.process, records))
                self._refuse_if_mostly_failing(result)
                faults.reach(faults.CHUNK_PROCESSED)
                self._patiently(partial(store.put_many, list(result.objects.items())))
                tally = None if self.tally is None else self.tally + result.tally()
                note = "" if tally is None else write_note(task.start, tally)
                writer.commit(result.outputs, end, note, reader.group_metadata())
                self.position, self.tally = end, tally
                faults.reach(faults.CHUNK_COMMITTED)

    def _take_up(self, committed: int, note: str) -> None:
        """Start where the committed transactions end, with the tally of the part that is done.

        A group that was quiet for long has no committed offset any more; then the plan's start still holds.
        """
        if committed > self.task.start:
            log.info("%s: an earlier try got to %d, going on there", self.task.range, committed)
            self.position = committed
            # Another run may have gone further than this plan; its note then counts records that are not ours.
            self.tally = read_note(note, self.task.start) if committed <= self.task.end else None

    def _refuse_if_mostly_failing(self, result: ChunkResult) -> None:
        self._seen += result.records
        self._failed += result.failed
        if self.task.accept_failures or self._seen < self.settings.failing_minimum:
            return
        if self._failed > self.settings.failing_share * self._seen:
            raise RangeMostlyFailing(self.task.topic, self.task.partition, self._failed, self._seen, result.last_error)

    def _patiently(self, work: Callable[[], Result]) -> Result:
        """Retry work on the object store, whose outage would fail every record of the chunk alike."""
        policy = retry_policy(None, self.settings)
        for attempt in range(1, policy.max_attempts):
            try:
                return work()
            except TransientError as error:
                log.warning("%s: try %d of %d: %s", self.task.range, attempt, policy.max_attempts, error)
                time.sleep(policy.pause_s(attempt, 0))
        return work()

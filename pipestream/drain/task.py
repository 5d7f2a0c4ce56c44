"""Drain ranges of a topic: what a Spark task runs, and what a stream runs on ranges without an end.

Exactly once, whatever dies when:

1. Start the partition's transactional producer. That fences every earlier one and aborts what it left open. Then fence
   the producers that drain the partition under another id: in order of time together with others, or by itself.
2. Only then read the committed offset: nobody else can move it any more. Start there.
3. Per chunk: read, set a crash marker, hydrate, process, store objects (none is ever changed: a try with other bytes
   for a name takes another name), then in one transaction send the outputs, the dead letters and the new offset.

The steps of several chunks overlap (``stages.py``). Transactions stay in order, one at a time.

No record stops those behind it: a record that crashes the process, or whose output Kafka refuses, is given up. That
happens inside the same chunk and the same transaction.
"""

from __future__ import annotations

import logging
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from pipestream.drain.careful import drain_suspects
from pipestream.drain.chunk import ChunkProcessor, chunk_processor
from pipestream.drain.committer import Committer, Patience
from pipestream.drain.concurrency import limit_calls, widest
from pipestream.drain.counts import Counts, RangeCounts
from pipestream.drain.crash_markers import CrashMarkers
from pipestream.drain.cut import Pieces
from pipestream.drain.judge import Judge
from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.drain.stages import drain_overlapping
from pipestream.engine.handoff import open_handoff
from pipestream.engine.services import open_services
from pipestream.errors import Concern, PipestreamError
from pipestream.graph.flow import fused_with
from pipestream.graph.proto import restore
from pipestream.objects.store import ObjectStore, open_store
from pipestream.offsets.range_reader import KafkaRangeBroker, RangeBroker
from pipestream.settings import Settings
from pipestream.topics.named import record_named_topics

log = logging.getLogger(__name__)

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
    return outcomes_of(task, counts, drain.positions, time.monotonic() - started, error)


def outcomes_of(
    task: RangeTask, counts: RangeCounts, positions: Mapping[int, int], seconds: float, error: PipestreamError | None
) -> list[RangeOutcome]:
    """Return how far each range of a task got.

    :param positions: where the committed transactions end, per partition.
    :param error: what ended the task early.
    """
    return [
        RangeOutcome(
            topic=task.topic,
            partition=each.partition,
            start=each.start,
            end=min(positions[each.partition], each.end),
            tally=counts.tallies[each.partition],
            # Several ranges share the task's time, so that a topic's seconds add up.
            seconds=seconds / len(task.offsets),
            busy_s=counts.busy_s(each.partition),
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


@dataclass(frozen=True, slots=True)
class OpenTask:
    """What a task works with: its graph, the object store, and what processes its chunks."""

    digest: str
    """The hash of the graph."""
    store: ObjectStore
    processor: ChunkProcessor


@contextmanager
def open_task(
    task: RangeTask, settings: Settings, patiently: Patience, *, processes: bool = True
) -> Iterator[OpenTask]:
    """Open what a task works with, and close it at the end.

    :param processes: whether the task processes records. One that only commits the results of others opens no module.
    """
    version = restore(b64decode(task.graph))
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings.store_uri, settings))
        patiently(partial(record_named_topics, store, version.graph, settings))
        if task.engine:
            version, opened = open_handoff(version, settings, task.node_id, task.engine, bool(task.datasource_id))
        else:
            wanted = fused_with(version.graph, task.node_id) if processes else ()
            opened = open_services(version, settings, wanted, store)
        nodes = fused_with(version.graph, task.node_id) if processes else ()
        services = limit_calls(stack.enter_context(opened), version.graph, nodes)
        width = widest(version.graph, nodes)
        pool = stack.enter_context(ThreadPoolExecutor(width, "process")) if width > 1 else None
        processor = chunk_processor(task, version.graph, services, store, settings, pool, width)
        yield OpenTask(version.digest, store, processor)


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
        self._judge = Judge(task, settings, judged_records)
        self.positions = {each.partition: each.start for each in task.ranges}

    def run(self) -> None:
        task, settings = self.task, self.settings
        patiently = Patience(task.topic, settings)
        with ExitStack() as stack:
            opened = stack.enter_context(open_task(task, settings, patiently))
            writer = stack.enter_context(self._broker.start_writer(task.transactional_ids, task.topic))
            reader = stack.enter_context(self._broker.open_reader(task.group, task.ranges))
            # A group that was quiet for long has no committed offset any more; then the plan's start still holds.
            for (_, partition), committed in reader.committed().items():
                self.positions[partition] = self._counts.resume(partition, committed)
            markers = stack.enter_context(CrashMarkers(opened.store, task, opened.digest, patiently))
            markers.read(self.positions)
            committer = Committer(
                task,
                writer,
                reader.group_metadata(),
                opened.processor,
                markers,
                self._counts,
                self._judge,
                self._check_lease,
                patiently,
                self.positions,
            )
            starts = {(task.topic, partition): position for partition, position in self.positions.items()}
            read = Pieces(reader.chunks(starts, settings.chunk_records))
            if drain_suspects(read, committer, settings):
                drain_overlapping(read, reader.stop, committer, settings)

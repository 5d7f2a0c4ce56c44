"""Process one partition in several tasks side by side, and commit the results in order in one task.

One task per partition keeps one core busy, whatever the size of the cluster. So a long range can be cut into
sub-ranges:

1. Each sub-range has a task that reads, hydrates and processes it, and stores the objects. It sends nothing to Kafka,
   so it needs no fence. It never changes a stored object (``store_objects``), so an overtaken task does no harm. It
   hands over the results in pieces.
2. When all sub-ranges are processed, one task commits. It starts the partition's transactional producer, which fences
   every earlier task, reads the committed offset, and sends the pieces in order, in transactions with the offsets.

Everything else is as for a task that does both: the same stages, the same crash markers (one for each sub-range), the
same ``Committer``. Only the task that commits judges whether most records fail, because it alone sees them in order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from pipestream import faults
from pipestream.drain.careful import drain_suspects
from pipestream.drain.chunk import ChunkProcessor, ChunkResult
from pipestream.drain.committer import Committer, Patience, store_objects
from pipestream.drain.counts import RangeCounts
from pipestream.drain.crash_markers import CrashMarkers
from pipestream.drain.cut import Pieces
from pipestream.drain.hand_over import HandOver, handed_over
from pipestream.drain.judge import Judge
from pipestream.drain.pieces import ProcessedPiece, gather_pieces
from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.drain.stages import drain_overlapping
from pipestream.drain.task import open_task, outcomes_of
from pipestream.engine.carry import RecordResult
from pipestream.errors import PipestreamError, StoreRefused, StoreUnavailable
from pipestream.objects.store import ObjectStore
from pipestream.offsets.range_reader import KafkaRangeBroker, RangeBroker
from pipestream.settings import Settings

log = logging.getLogger(__name__)


def process_sub_range(
    task: RangeTask, number: int, settings: Settings, broker: RangeBroker | None = None
) -> Iterator[bytes]:
    """Process a sub-range of a task's range, and yield its pieces in order while it works.

    An error of ours is the last piece rather than raised, so that what was processed before it is committed.

    :param number: of the sub-range, among those of the task.
    """
    (partition, _, _), (start, end) = task.offsets[0], task.sub_ranges[number]
    # Failures are accepted here: which share of the range fails, the task that commits can tell.
    part = replace(task, offsets=((partition, start, end),), accept_failures=True, sub_ranges=())
    work = partial(_process, part, number, settings, broker or KafkaRangeBroker(settings))
    yield from handed_over(work, f"sub-range {task.topic}[{partition}] {number}")


def refuse_sub_range(task: RangeTask, number: int, error: PipestreamError) -> bytes:
    """Return the only piece of a sub-range that could not begin."""
    start, _ = task.sub_ranges[number]
    return ProcessedPiece(start, start, ChunkResult(), error).encode()


def _process(part: RangeTask, number: int, settings: Settings, broker: RangeBroker, hand_over: HandOver) -> None:
    started = time.monotonic()
    ((partition, start, end),) = part.offsets
    collected = _Collected(start, hand_over)
    error: PipestreamError | None = None
    try:
        if start < end:
            _collect(part, number, settings, broker, collected)
    except PipestreamError as raised:
        log.warning("%s[%d] sub-range %d stopped at %d: %s", part.topic, partition, number, collected.end, raised)
        error = raised
    faults.reach(faults.SUB_RANGE_PROCESSED)
    seconds = time.monotonic() - started
    last = ProcessedPiece(collected.end, collected.end, ChunkResult(), error, seconds, tuple(collected.markers))
    hand_over(last.encode())


def _collect(part: RangeTask, number: int, settings: Settings, broker: RangeBroker, collected: _Collected) -> None:
    ((partition, start, _),) = part.offsets
    patiently = Patience(part.topic, settings)
    with ExitStack() as stack:
        opened = stack.enter_context(open_task(part, settings, patiently))
        reader = stack.enter_context(broker.open_reader(part.group, part.ranges))
        markers = stack.enter_context(CrashMarkers(opened.store, part, opened.digest, patiently, number))
        markers.read({partition: start})
        collector = _Collector(
            part, opened.processor, markers, RangeCounts(part), Judge(part, settings), patiently, {partition: start},
            collected,
        )  # fmt: skip
        read = Pieces(reader.chunks({(part.topic, partition): start}, settings.chunk_records))
        if drain_suspects(read, collector, settings):
            drain_overlapping(read, reader.stop, collector, settings)
        collected.markers = markers.kept_keys


@dataclass(slots=True)
class _Collected:
    """How far a sub-range is handed over."""

    end: int
    hand_over: HandOver
    markers: list[str] = field(default_factory=list)

    def take(self, result: ChunkResult, end: int) -> None:
        self.hand_over(ProcessedPiece(self.end, end, result).encode())
        self.end = end


@dataclass(frozen=True, slots=True)
class _Collector:
    """Takes chunks as ``Committer`` does, and hands them over instead."""

    task: RangeTask
    processor: ChunkProcessor
    markers: CrashMarkers
    counts: RangeCounts
    judge: Judge
    patiently: Patience
    positions: Mapping[int, int]
    """Where the sub-range starts. It does not move: a task that dies leaves nothing, and its next try starts there."""
    collected: _Collected

    def store(self, result: ChunkResult | RecordResult) -> None:
        """Store objects before the records that refer to them are handed over."""
        store_objects(result, self.processor, self.patiently)

    def commit(self, result: ChunkResult, ends: Mapping[int, int]) -> None:
        """Hand a chunk over."""
        result.drop_objects()
        self.collected.take(result, ends[self.task.offsets[0][0]])
        self.markers.passed(ends)
        faults.reach(faults.PIECE_HANDED_OVER)


def commit_sub_ranges(
    task: RangeTask,
    pieces: Iterable[bytes],
    settings: Settings,
    check_lease: Callable[[], None] = lambda: None,
    broker: RangeBroker | None = None,
) -> list[RangeOutcome]:
    """Commit the pieces of a task's range, and say how far it got. Errors are part of the answer.

    :param pieces: of all sub-ranges, in order.
    :param check_lease: raises when the run should stop; asked before every transaction.
    """
    started = time.monotonic()
    counts = RangeCounts(task)
    commit = _Commit(task, settings, broker or KafkaRangeBroker(settings), check_lease, counts)
    error: PipestreamError | None = None
    try:
        commit.run(pieces)
    except PipestreamError as raised:
        log.warning("%s stopped at %s: %s", task.topic, commit.positions, raised)
        error = raised
    # The time of all tasks: what the range would have taken one task.
    seconds = time.monotonic() - started + commit.processing_s
    return outcomes_of(task, counts, commit.positions, seconds, error)


class _NoMarkers:
    """A task that only commits leaves no crash markers: no document is at work in it."""

    def passed(self, ends: Mapping[int, int]) -> None:
        """Nothing to forget."""


@dataclass(slots=True)
class _Commit:
    """One pass over the pieces of a task's range."""

    task: RangeTask
    settings: Settings
    broker: RangeBroker
    check_lease: Callable[[], None]
    counts: RangeCounts
    positions: dict[int, int] = field(init=False)
    processing_s: float = 0.0
    markers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.positions = {each.partition: each.start for each in self.task.ranges}

    def run(self, pieces: Iterable[bytes]) -> None:
        task, settings, patiently = self.task, self.settings, Patience(self.task.topic, self.settings)
        with ExitStack() as stack:
            opened = stack.enter_context(open_task(task, settings, patiently, processes=False))
            writer = stack.enter_context(self.broker.start_writer(task.transactional_ids, task.topic))
            faults.reach(faults.COMMITTER_FENCED)
            reader = stack.enter_context(self.broker.open_reader(task.group, task.ranges))
            # Only now: nobody else can move it any more.
            for (_, partition), committed in reader.committed().items():
                self.positions[partition] = self.counts.resume(partition, committed)
            committer = Committer(
                task, writer, reader.group_metadata(), opened.processor, _NoMarkers(), self.counts,
                Judge(task, settings), self.check_lease, patiently, self.positions,
            )  # fmt: skip
            self._commit(pieces, committer)
            self._forget_markers(opened.store)

    def _commit(self, pieces: Iterable[bytes], committer: Committer[_NoMarkers]) -> None:
        ((partition, _, end),) = self.task.offsets
        limits = {"most_records": self.settings.chunk_records, "most_bytes": self.settings.chunk_bytes}
        for gathered in gather_pieces(pieces, self.positions[partition], end, **limits):
            self.processing_s += gathered.seconds
            self.markers += gathered.markers
            if gathered.end > self.positions[partition]:
                committer.judge.count(gathered.result)
                faults.reach(faults.PIECES_GATHERED)
                committer.commit(gathered.result, {partition: gathered.end})
            if gathered.error is not None:
                raise gathered.error

    def _forget_markers(self, store: ObjectStore) -> None:
        """Delete the crash markers of sub-ranges that are committed now."""
        try:
            for key in self.markers:
                store.delete(key)
        except (StoreUnavailable, StoreRefused) as trouble:
            log.warning("markers %s stay: %s", ", ".join(self.markers), trouble)  # left over they are harmless

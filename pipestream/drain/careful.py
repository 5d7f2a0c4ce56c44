"""Drain what an earlier try died in, without overlap: chunk by chunk, and where a try died so, one record at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial

from pipestream import faults
from pipestream.drain.chunk import ChunkResult
from pipestream.drain.committer import ChunkSink
from pipestream.drain.cut import FIRST_RECORDS, Piece, Pieces
from pipestream.engine.carry import RecordResult
from pipestream.engine.follow import RetryPolicy, retry_policy
from pipestream.errors import ProcessDied
from pipestream.graph.flow import fused_with
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings

log = logging.getLogger(__name__)


def drain_suspects(read: Pieces, committer: ChunkSink, settings: Settings) -> bool:
    """Drain while the next records are ones that an earlier try died in; return whether there may be more.

    Nothing overlaps here, so the chunk or the record at hand is the only one that can be to blame.
    """
    policy = _policy(committer, settings)
    if committer.markers.has_suspects:
        log.warning("%s: an earlier try died after %s; carefully now", committer.task.topic, committer.positions)
    # Small transactions: the next try may die too, and then begins with the last one, one record at a time.
    while committer.markers.has_suspects and (piece := read.take(FIRST_RECORDS)) is not None:
        read_at = time.monotonic()
        if committer.markers.are_suspect(piece.records, after_one_death=_unnamed_deaths(policy) == 1):
            committer.counts.begin([record.partition for record in piece.records], read_at)
            result = _process_one_by_one(piece.records, committer, policy)
        else:
            piece, result = _process_alone(piece, read, committer, settings, read_at)
        committer.judge.count(result)
        faults.reach(faults.CHUNK_PROCESSED)
        committer.store(result)
        committer.commit(result, piece.ends)
    return not committer.markers.has_suspects


def _policy(committer: ChunkSink, settings: Settings) -> RetryPolicy:
    graph = committer.processor.entrance.graph
    return retry_policy(graph.node_by_id.get(committer.task.node_id), settings)


def _unnamed_deaths(policy: RetryPolicy) -> int:
    """Return how many tries die before one names the record: one among several chunks, one in the record's chunk alone.

    Where only two deaths are allowed, the second one has to tell the record.
    """
    return 2 if policy.max_attempts > 2 else 1


def _process_alone(
    piece: Piece, read: Pieces, committer: ChunkSink, settings: Settings, read_at: float
) -> tuple[Piece, ChunkResult]:
    """Process a chunk as a whole, named in the crash marker before it begins; return what of the piece it took."""
    processor, patiently = committer.processor, committer.patiently
    committer.markers.enter(piece.records, committer.positions)
    hydrated = patiently(partial(processor.hydrate, piece.records, settings.chunk_bytes))
    piece, rest = piece.split(len(hydrated.records))
    read.put_back(rest)
    committer.counts.begin([record.partition for record in piece.records], read_at)
    return piece, processor.carry(hydrated, patiently)


def _process_one_by_one(records: Sequence[InputRecord], committer: ChunkSink, policy: RetryPolicy) -> ChunkResult:
    """Process records one at a time, each named in the crash marker before it begins.

    Each record's objects are stored at once and not held, because the earlier try may have run out of memory.
    """
    markers, positions = committer.markers, committer.positions
    log.warning("%s: a try died in a chunk after %s; one record at a time", committer.task.topic, positions)
    result = ChunkResult()
    for record in records:
        markers.approach(record, positions[record.partition])
        done = _process_suspect(record, markers.deaths(record), committer, policy)
        committer.store(done)
        done.objects.clear()
        result.put(done)
    markers.leave()
    return result


def _process_suspect(record: InputRecord, deaths: int, committer: ChunkSink, policy: RetryPolicy) -> RecordResult:
    processor = committer.processor
    unnamed = _unnamed_deaths(policy)
    # The tries that died before count as well, but which record they died at is not known.
    if deaths < max(1, policy.max_attempts - unnamed):
        return committer.patiently(partial(processor.process_one, record))
    error = ProcessDied(fused_with(processor.entrance.graph, committer.task.node_id), deaths)
    log.error("%s[%d] offset %d is given up: %s", record.topic, record.partition, record.offset, error)
    return processor.give_up(record, error, attempts=deaths + unnamed)

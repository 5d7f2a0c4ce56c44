"""Drain what an earlier try died in: without overlap, one record at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from pipestream import faults
from pipestream.drain.chunk import ChunkResult
from pipestream.drain.committer import ChunkSink
from pipestream.drain.cut import Pieces
from pipestream.engine.carry import RecordResult
from pipestream.engine.follow import retry_policy
from pipestream.errors import ProcessDied
from pipestream.graph.flow import fused_with
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings

log = logging.getLogger(__name__)

# A transaction is small here: the next try may die too, and then begins with the last one.
_CHUNK_RECORDS = 100


def drain_suspects(read: Pieces, committer: ChunkSink, settings: Settings) -> bool:
    """Drain while the next records are ones that an earlier try died in; return whether there may be more.

    Nothing overlaps here, so the record at hand is the only one that can be to blame.
    """
    markers, processor = committer.markers, committer.processor
    while markers.has_suspects:
        piece = read.take(_CHUNK_RECORDS)
        if piece is None:
            return False
        partitions = {record.partition for record in piece.records}
        committer.counts.begin([record.partition for record in piece.records])
        if markers.are_suspect(partitions):
            result = _process_carefully(piece.records, committer, settings)
        else:
            markers.begin(committer.positions, {p: piece.ends[p] for p in partitions})
            result = committer.patiently(partial(processor.process, piece.records))
        committer.judge.count(result)
        faults.reach(faults.CHUNK_PROCESSED)
        committer.store(result)
        committer.commit(result, piece.ends)
    return True


def _process_carefully(records: Sequence[InputRecord], committer: ChunkSink, settings: Settings) -> ChunkResult:
    """Process records one at a time, each named in the crash marker before it begins.

    Each record's objects are stored at once and not held, because the earlier try may have run out of memory.
    """
    markers, positions = committer.markers, committer.positions
    log.warning("%s: an earlier try died after %s; continuing one record at a time", committer.task.topic, positions)
    result = ChunkResult()
    for record in records:
        markers.approach(record, positions[record.partition])
        done = _process_suspect(record, markers.deaths(record), committer, settings)
        committer.store(done)
        done.objects.clear()
        result.put(done)
    markers.leave()
    return result


def _process_suspect(record: InputRecord, deaths: int, committer: ChunkSink, settings: Settings) -> RecordResult:
    processor, node_id = committer.processor, committer.task.node_id
    graph = processor.entrance.graph
    policy = retry_policy(graph.node_by_id.get(node_id), settings)
    # The first try that died counts as well, but which record it died at is not known.
    if deaths < max(1, policy.max_attempts - 1):
        return committer.patiently(partial(processor.process_one, record))
    error = ProcessDied(fused_with(graph, node_id), deaths)
    log.error("%s[%d] offset %d is given up: %s", record.topic, record.partition, record.offset, error)
    return processor.give_up(record, error, attempts=deaths + 1)

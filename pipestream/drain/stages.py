"""Drain chunks with four stages side by side: read and hydrate, process, store objects, commit.

While a chunk commits, the objects of the next one are stored, the one behind it is processed, and the one behind that
is read and hydrated. Where records are processed side by side, records of the next chunks start while the last records
of this chunk finish. Chunks stay in order, and a producer has one transaction at a time. What bounds the memory is the
bytes of all chunks in progress, not their number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

from pipestream import faults
from pipestream.drain.chunk import NO_RECORDS, ChunkProcessor, ChunkResult, HydratedRecords
from pipestream.drain.committer import ChunkSink, Patience
from pipestream.drain.concurrency import Begun, Workers
from pipestream.drain.cut import ChunkSize, Piece, Pieces
from pipestream.drain.overlap import Ahead, Behind, InFlight, finish
from pipestream.engine.carry import RecordResult
from pipestream.settings import Settings

# Where records are processed side by side: how many chunks wait behind one with a slow record, already begun. A chunk
# takes about a second, so a record may take some seconds until it holds others back.
_BEGUN_CHUNKS = 8
# Of the bytes in flight, chunks that are begun early get this part. The rest is for reading, storing and committing.
_BEGUN_SHARE = 4


def drain_overlapping(read: Pieces, stop_reading: Callable[[], None], committer: ChunkSink, settings: Settings) -> None:
    """Drain what is read until there is no more.

    A later stage works on an earlier chunk, so its error is the one to raise: without overlap, no later chunk would
    have begun. When a chunk fails, those before it are still committed, as they would be without overlap.

    :param stop_reading: ends ``read`` soon, also while it waits.
    """
    topic, in_flight = committer.task.topic, InFlight(settings.in_flight_bytes)
    size = ChunkSize(settings.chunk_records, settings.chunk_bytes)

    def stop() -> None:
        # A stream waits for the next record, which may be long in coming, and its error must not wait with it.
        in_flight.close()
        stop_reading()

    with ExitStack() as stack:
        committing = stack.enter_context(Behind(f"commit {topic}", stop))
        storing = stack.enter_context(Behind(f"store {topic}", stop))
        hydrated = _hydrate(read, committer, size, in_flight, settings.chunk_bytes)
        chunks = stack.enter_context(Ahead(hydrated, stop_reading, f"read {topic}"))
        stack.callback(in_flight.close)  # the reader may wait for room
        if committer.processor.pool is not None:
            pool, width = committer.processor.pool, committer.processor.width
            workers = Workers[RecordResult](pool, width, in_flight, lambda result: result.size_bytes)
            early = InFlight(max(1, settings.in_flight_bytes // _BEGUN_SHARE))
            begun = _begin(chunks, committer, workers, early)
            chunks = stack.enter_context(Ahead(begun, stop, f"begin {topic}", _BEGUN_CHUNKS))
            stack.callback(workers.stop)
            stack.callback(early.close)
        try:
            since = time.monotonic()
            for chunk in chunks:
                committer.counts.begin([record.partition for record in chunk.hydrated.records], chunk.read_at)
                chunk.process(committer.processor, committer.patiently)
                committer.judge.count(chunk.result)
                faults.reach(faults.CHUNK_PROCESSED)
                storing.submit(partial(_store_then_commit, chunk, committer, committing))
                # Behind a slow record, a chunk may be done when it is waited for; its records took their time.
                size.adapt(len(chunk.result), chunk.size_bytes, max(time.monotonic() - since, chunk.entering_s))
                since = time.monotonic()
        except Exception:
            finish([storing, committing])
            raise
        finish([storing, committing])


class _Chunk:
    """A chunk on its way through the stages, and the bytes that it has in flight."""

    def __init__(self, hydrated: HydratedRecords, ends: Mapping[int, int], in_flight: InFlight, read_at: float) -> None:
        self.hydrated = hydrated
        self.ends = ends
        self.read_at = read_at
        self.result = ChunkResult()
        self.size_bytes = hydrated.size_bytes
        self.entering_s = 0.0
        """How long it took to begin all records, where they are processed side by side."""
        self._begun: Begun[RecordResult] | None = None
        self._early = in_flight
        self._in_flight = in_flight
        self._counted_bytes = 0
        self._count(hydrated.size_bytes + hydrated.passed_bytes)

    def begin(
        self, processor: ChunkProcessor, patiently: Patience, workers: Workers[RecordResult], early: InFlight
    ) -> None:
        """Begin to process the records side by side, and count their bytes as early until it is this chunk's turn."""
        early.add(self.size_bytes)
        self._early = early
        self._begun = processor.begin(self.hydrated, patiently, workers)

    def process(self, processor: ChunkProcessor, patiently: Patience) -> None:
        """Process the records, or wait until they are, and forget the documents as they came."""
        if self._begun is None:
            self.result = processor.carry(self.hydrated, patiently)
        else:
            self._early.add(-self.size_bytes)
            self.result = processor.collect(self.hydrated, self._begun.wait())
            self._counted_bytes += self._begun.size_bytes
            self.entering_s, self._begun = self._begun.entering_s, None
        self._count(self.hydrated.size_bytes + self.result.size_bytes)
        self.hydrated = NO_RECORDS

    def is_stored(self) -> None:
        """Keep only what is sent: the objects are stored."""
        self.result.drop_objects()
        self._count(self.result.size_bytes)

    def is_done(self) -> None:
        self._count(0)

    def _count(self, size_bytes: int) -> None:
        self._in_flight.add(size_bytes - self._counted_bytes)
        self._counted_bytes = size_bytes


def _hydrate(
    read: Pieces, committer: ChunkSink, size: ChunkSize, in_flight: InFlight, most_bytes: int
) -> Iterator[_Chunk]:
    """Cut what is read into chunks, and fetch their documents; wait while too much is in flight."""
    while in_flight.wait_for_room() and (piece := _take(read, committer, size)) is not None:
        read_at = time.monotonic()
        faults.reach(faults.CHUNK_READ)
        ends = {record.partition: record.offset + 1 for record in piece.records}
        committer.markers.begin(committer.positions, ends)
        hydrated = committer.patiently(partial(committer.processor.hydrate, piece.records, most_bytes))
        faults.reach(faults.CHUNK_HYDRATED)
        piece, rest = piece.split(len(hydrated.records))
        read.put_back(rest)
        yield _Chunk(hydrated, piece.ends, in_flight, read_at)


def _take(read: Pieces, committer: ChunkSink, size: ChunkSize) -> Piece | None:
    with committer.processor.carrier.services.meter.timed("receive", committer.task.topic):
        return read.take(size.records)


def _begin(
    chunks: Iterable[_Chunk], committer: ChunkSink, workers: Workers[RecordResult], early: InFlight
) -> Iterator[_Chunk]:
    """Begin to process chunks, without waiting for the results of those before them."""
    for chunk in chunks:
        early.wait_for_room()
        chunk.begin(committer.processor, committer.patiently, workers, early)
        yield chunk


def _store_then_commit(chunk: _Chunk, committer: ChunkSink, committing: Behind) -> None:
    with committer.processor.carrier.services.meter.timed("dispatch"):
        if chunk.result.has_objects:
            committer.store(chunk.result)
            chunk.is_stored()
    faults.reach(faults.CHUNK_STORED)

    def commit() -> None:
        committer.commit(chunk.result, chunk.ends)
        chunk.is_done()

    committing.submit(commit)

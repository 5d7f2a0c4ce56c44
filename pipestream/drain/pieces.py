"""Pieces: what the task that processes a sub-range hands to the task that commits its partition.

A piece holds the results of a chunk, record by record, so that the task that commits can drop the records that an
earlier try has committed, and can still give up a single one. It holds no objects: they are stored by then, under names
that are derived from their records, so a repeated try stores the same ones. Its segments are new, and nothing refers
to those of the first try.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pipestream.drain.chunk import ChunkResult
from pipestream.errors import PipestreamError, TasksFailed, TerminalError, TransientError

# Places of pieces grow with the number of the sub-range first, and each sub-range has fewer pieces than this.
_MOST_PIECES = 2**32


@dataclass(frozen=True, slots=True)
class ProcessedPiece:
    """A stretch of a partition that is processed, objects stored, and not committed."""

    start: int
    end: int
    result: ChunkResult
    error: PipestreamError | None = None
    """What ended the sub-range here, before its end. Then the piece has no records."""
    seconds: float = 0.0
    """In the last piece of a sub-range: how long the task worked on it."""
    markers: tuple[str, ...] = ()
    """In the last piece of a sub-range: keys of crash markers to delete when all is committed."""

    def encode(self) -> bytes:
        """Return the piece as bytes for the other task, which runs the same version of this code."""
        try:
            return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
        except Exception:
            # Errors that a module raised are its own, and the letters about them are written already.
            for result in self.result:
                result.error = _portable(result.error)
            return pickle.dumps(replace(self, error=_portable(self.error)), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def decode(cls, data: bytes) -> ProcessedPiece:
        """Read what ``encode`` returned. Only for bytes of a task of the same run: pickle trusts them."""
        piece = pickle.loads(data)  # noqa: S301
        if not isinstance(piece, cls):
            raise TypeError(f"not a piece of a sub-range: {type(piece).__name__}")
        return piece


def _portable(error: PipestreamError | None) -> PipestreamError | None:
    """Return an error that can be pickled: itself, or a plain one with its message."""
    if error is None:
        return None
    try:
        pickle.dumps(error)
    except Exception:
        plain = (TransientError if error.transient else TerminalError)(f"{type(error).__name__}: {error}")
        plain.concerns = error.concerns
        return plain
    return error


def place_of(sub_range: int, number: int) -> int:
    """Return a number by which the pieces of a partition are put in order.

    :param number: of the piece, within its sub-range.
    """
    return sub_range * _MOST_PIECES + number


@dataclass(slots=True)
class Gathered:
    """Pieces that go into one transaction."""

    result: ChunkResult
    end: int
    size_bytes: int = 0
    seconds: float = 0.0
    markers: tuple[str, ...] = ()
    error: PipestreamError | None = None
    """What ended a sub-range behind these pieces: commit them, then raise it."""


def gather_pieces(
    pieces: Iterable[bytes], position: int, end: int, *, most_records: int, most_bytes: int
) -> Iterator[Gathered]:
    """Join pieces into transactions, from a position on. Pieces that lie before it are dropped, record by record.

    :param pieces: of all sub-ranges of a partition, in order.
    :param position: where the committed transactions end. An earlier try may have got beyond some pieces.
    :param end: where the range ends.
    :raises TasksFailed: pieces are missing. Nothing behind the gap is handed out.
    """
    gathered = Gathered(ChunkResult(), position)
    for data in pieces:
        piece = ProcessedPiece.decode(data)
        if piece.start > gathered.end:
            yield gathered
            raise TasksFailed(f"the results of the offsets from {gathered.end} to {piece.start} are missing")
        gathered.result.add(piece.result, start=gathered.end)
        gathered.end = max(gathered.end, piece.end)
        gathered.size_bytes += len(data)
        gathered.seconds += piece.seconds
        gathered.markers += piece.markers
        if piece.error is not None:
            gathered.error = piece.error
            yield gathered
            return
        if len(gathered.result) >= most_records or gathered.size_bytes >= most_bytes:
            yield gathered
            gathered = Gathered(ChunkResult(), gathered.end)
    yield gathered
    if gathered.end < end:
        raise TasksFailed(f"the results of the offsets from {gathered.end} to {end} are missing")

"""Cut what was read of a topic into chunks, each of which is one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipestream.kafka.records import InputRecord, Partition

# A chunk starts small, so that a short range and the first records of a long one do not wait.
FIRST_RECORDS = 500
FEWEST_RECORDS = 16
# Behind chunks of this length, a commit of 40 to 110 ms is hidden. A longer one only delays its outputs.
_TARGET_S = 1.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that were read together, and the offset to commit after them, per partition."""

    records: Sequence[InputRecord]
    ends: Mapping[int, int]

    def split(self, count: int) -> tuple[Piece, Piece | None]:
        """Return the first ``count`` records, and the rest; None: there is no rest."""
        if count >= len(self.records):
            return self, None
        first, rest = self.records[:count], self.records[count:]
        return Piece(first, {each.partition: each.offset + 1 for each in first}), Piece(rest, self.ends)


class Pieces:
    """What a reader hands out of one topic, cut as it is asked for."""

    def __init__(self, chunks: Iterator[tuple[Sequence[InputRecord], Mapping[Partition, int]]]) -> None:
        self._chunks = chunks
        self._left: list[Piece] = []

    def take(self, most: int) -> Piece | None:
        """Return the next records, ``most`` of them at most; None: there are no more."""
        if not self._left:
            found = next(self._chunks, None)
            if found is None:
                return None
            records, ends = found
            self._left.append(Piece(records, {partition: end for (_, partition), end in ends.items()}))
        piece, rest = self._left.pop().split(most)
        self.put_back(rest)
        return piece

    def put_back(self, rest: Piece | None) -> None:
        """Return to the front what was taken last, or the end of it."""
        if rest is not None:
            self._left.append(rest)


class ChunkSize:
    """How many records a chunk may have: few where each takes long, many in a backlog of quick ones.

    It doubles after a full chunk that was quick, and halves after one that was slow. The bytes of documents limit it as
    well, as far as those of the chunk before tell.
    """

    def __init__(self, most_records: int, most_bytes: int) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._records = min(FIRST_RECORDS, most_records)
        self._document_bytes = 0.0

    @property
    def records(self) -> int:
        if not self._document_bytes:
            return self._records
        return max(1, min(self._records, int(self._most_bytes / self._document_bytes)))

    def adapt(self, records: int, size_bytes: int, seconds: float) -> None:
        """Learn from a chunk.

        :param seconds: from the chunk before to this one. An idle topic may be part of it, so a chunk that is not full
            only tells the size of its documents.
        """
        if not records:
            return
        is_full = records >= self.records
        self._document_bytes = size_bytes / records
        if is_full and seconds < _TARGET_S / 2:
            self._records = min(self._records * 2, self._most_records)
        elif is_full and seconds > _TARGET_S * 2:
            self._records = max(self._records // 2, min(FEWEST_RECORDS, self._most_records))

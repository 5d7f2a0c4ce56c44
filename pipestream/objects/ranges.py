"""Byte ranges of objects, and how several small ones become few large reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

# 1 KB documents of which every fifth is wanted, on a local S3 server: 118-142 k/s with gaps of 256 KB to 1 MB,
# 1.8 k/s without. A request costs as much as reading some 200 KB.
GAP_BYTES = 256 * 1024
# Large enough that a request costs little, small enough that several threads share a long read.
LARGEST_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Bytes of an object, from ``start`` to before ``end``."""

    key: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    def contains(self, other: ByteRange) -> bool:
        """Tell whether another range is part of this one."""
        return self.key == other.key and self.start <= other.start and other.end <= self.end


def coalesce(
    wanted: Iterable[ByteRange], gap_bytes: int = GAP_BYTES, most_bytes: int = LARGEST_READ_BYTES
) -> list[ByteRange]:
    """Return the ranges to read, sorted, so that each wanted one is within one of them.

    :param gap_bytes: the most bytes that nobody wants between two ranges that are read at once.
    :param most_bytes: ranges are not joined beyond this size.
    """
    reads: list[ByteRange] = []
    for each in sorted(wanted):
        last = reads[-1] if reads else None
        if last is not None and last.contains(each):
            continue
        if (
            last is not None
            and last.key == each.key
            and each.start - last.end <= gap_bytes
            and each.end - last.start <= most_bytes
        ):
            reads[-1] = replace(last, end=each.end)
        else:
            reads.append(each)
    return reads

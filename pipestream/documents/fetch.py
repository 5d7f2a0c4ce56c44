"""Fetch stored documents: objects of their own one by one, and documents in segments with few reads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from pipestream.documents.segments import range_of, read_document
from pipestream.errors import DocumentMissing, SegmentDamaged
from pipestream.objects.ranges import coalesce

if TYPE_CHECKING:
    from pipestream.documents.references import DocumentPlace
    from pipestream.objects.ranges import ByteRange
    from pipestream.objects.store import ObjectStore

Fetched = bytes | DocumentMissing | SegmentDamaged
"""The bytes of a document, or why there are none."""

# Reads have the bytes between documents, too. Where the documents of a reader are scattered, for example because its
# topic got more partitions, these are up to 256 KB for each document, whatever its size.
_TOGETHER_BYTES = 64 * 1024 * 1024


def fetch_document(store: ObjectStore, place: DocumentPlace) -> bytes:
    """Return the bytes of a stored document.

    :raises DocumentMissing: there is no such object.
    :raises SegmentDamaged: the segment does not have it at that place.
    :raises StoreUnavailable: the store did not answer.
    """
    (found,) = fetch_documents(store, [place])
    if not isinstance(found, bytes):
        raise found
    return found


def fetch_documents(
    store: ObjectStore, places: Sequence[DocumentPlace], most_bytes: int | None = None
) -> list[Fetched]:
    """Return the documents at some places in their order, with an error in place of each that is not there.

    :param most_bytes: stop when the documents have so many. Then the result is shorter than ``places``, but has one at
        least.
    :raises StoreUnavailable: the store did not answer.
    """
    if not any(place.is_in_segment for place in places):
        return [*store.get_many([place.key for place in places], most_bytes)]
    # The places say how large documents in segments are, so no object is fetched behind the place where it is enough.
    sizes = accumulate((place.length if place.is_in_segment else 0 for place in places), initial=0)
    before = [(place.key, size) for place, size in zip(places, sizes, strict=False) if not place.is_in_segment]
    wanted = [(key, size) for key, size in before if most_bytes is None or size < most_bytes]
    found = iter(store.get_many([key for key, _ in wanted], most_bytes, [size for _, size in wanted]))
    results: list[Fetched | None] = []
    size_bytes = 0
    for place in places:
        if results and most_bytes is not None and size_bytes >= most_bytes:
            break
        if place.is_in_segment:
            results.append(None)
            size_bytes += place.length
        elif (data := next(found, None)) is None:
            break  # it is enough before this object
        else:
            results.append(data)
            size_bytes += len(data) if isinstance(data, bytes) else 0
    in_segments = [place for place in places[: len(results)] if place.is_in_segment]
    read = iter(_read_segments(store, in_segments))
    return [next(read) if each is None else each for each in results]


def _read_segments(store: ObjectStore, places: Sequence[DocumentPlace]) -> list[Fetched]:
    reads = coalesce(map(range_of, places))
    starts = [(read.key, read.start) for read in reads]
    wanted: dict[ByteRange, list[int]] = {read: [] for read in reads}
    for index, place in enumerate(places):
        own = range_of(place)
        wanted[reads[bisect_right(starts, (own.key, own.start)) - 1]].append(index)
    results: dict[int, Fetched] = {}
    for batch in _cut_reads(reads):
        for read, data in zip(batch, store.get_ranges(batch), strict=True):
            results |= {index: _read_document(places[index], read, data) for index in wanted[read]}
    return [results[index] for index in range(len(places))]


def _cut_reads(reads: Sequence[ByteRange]) -> Iterator[Sequence[ByteRange]]:
    """Cut reads into those whose bytes are in memory together."""
    start = size_bytes = 0
    for index, read in enumerate(reads):
        if index > start and size_bytes + read.size_bytes > _TOGETHER_BYTES:
            yield reads[start:index]
            start, size_bytes = index, 0
        size_bytes += read.size_bytes
    if start < len(reads):
        yield reads[start:]


def _read_document(place: DocumentPlace, read: ByteRange, data: bytes | DocumentMissing) -> Fetched:
    """Copy a document out of what was read of its segment."""
    if isinstance(data, DocumentMissing):
        return data
    try:
        return read_document(place, memoryview(data), read.start)
    except SegmentDamaged as error:
        return error

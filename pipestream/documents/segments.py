"""The format of a segment: many documents in one object. Pure.

A segment is a 0 byte, then for each document its length and its CRC-32, four bytes each with the highest first, and
its bytes. Without the 0 byte and the checksums, concatenated documents would parse as one merged document, and a wrong
offset could parse too.

The name of a segment is drawn and never derived. A chunk that is processed again may have other borders and other
bytes, and a late write of a dead process must not change the bytes under offsets that are committed. Only the committed
reference says which segment counts; all others are orphans.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pipestream.errors import SegmentDamaged
from pipestream.ids import check_graph_id, check_key_part
from pipestream.objects.ranges import ByteRange

if TYPE_CHECKING:
    from pipestream.documents.references import DocumentPlace

ROOT = "segments"
_START = b"\0"
_HEADER = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Segment:
    """The bytes of a segment, and where its documents begin."""

    data: bytes
    offsets: Sequence[int]
    """Of each document, in the order in which they were given."""


def draw_segment_key(account_id: str, node_id: str, now: datetime) -> str:
    """Return a name for a segment that no segment had before.

    :param now: the present time in UTC. Its hour is part of the name, for people who look for a segment.
    :raises IdInvalid: a part cannot be in a key.
    """
    account, node = check_key_part(account_id, "account id"), check_graph_id(node_id, "node id")
    return f"{ROOT}/{account}/{node}/{now:%Y%m%d%H}/{uuid.uuid4()}"


def build_segment(documents: Iterable[bytes]) -> Segment:
    """Return a segment of some documents."""
    parts, offsets = [_START], []
    position = len(_START)
    for document in documents:
        parts += (_HEADER.pack(len(document), zlib.crc32(document)), document)
        offsets.append(position + _HEADER.size)
        position = offsets[-1] + len(document)
    return Segment(b"".join(parts), offsets)


def range_of(place: DocumentPlace) -> ByteRange:
    """Return the range to read for a document: its bytes, with length and checksum before them."""
    return ByteRange(place.key, place.offset - _HEADER.size, place.offset + place.length)


def read_document(place: DocumentPlace, data: memoryview, start: int) -> bytes:
    """Return a copy of a document, after its length and checksum were compared.

    :param data: bytes of the segment.
    :param start: where they begin in it.
    :raises SegmentDamaged: there is no such document at that place.
    """
    begin = place.offset - start
    header = data[begin - _HEADER.size : begin]
    document = bytes(data[begin : begin + place.length])
    if len(header) < _HEADER.size or len(document) < place.length:
        raise SegmentDamaged(str(place), "the object ends before the document does")
    length, checksum = _HEADER.unpack(header)
    if length != place.length:
        raise SegmentDamaged(str(place), f"the segment has {length} as the length there")
    if checksum != zlib.crc32(document):
        raise SegmentDamaged(str(place), "the bytes do not have the checksum that was stored with them")
    return document


def read_segment(key: str, data: bytes) -> Iterator[bytes]:
    """Yield the documents of a whole segment.

    :raises SegmentDamaged: it is not one, or not whole.
    """
    if not data.startswith(_START):
        raise SegmentDamaged(key, "the object is not a segment")
    position = len(_START)
    while position < len(data):
        if position + _HEADER.size > len(data):
            raise SegmentDamaged(key, "the object ends within the length of a document")
        length, checksum = _HEADER.unpack_from(data, position)
        position += _HEADER.size + length
        document = data[position - length : position]
        if len(document) < length or zlib.crc32(document) != checksum:
            raise SegmentDamaged(key, f"the document at {position - length} is not whole")
        yield document

"""The record of one transaction in the accepted log: which keys it accepted, with which answers.

Format 1, big-endian: the byte 1, the time in ms (8 bytes), then for each call: flags (1 byte, bit 0: the caller gave a
key), the key's digest (16), the content's digest (16, zeros for none), the length of the answer (2) and the answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipestream.errors import AcceptedLogInvalid

_FORMAT = 1
_HEAD = struct.Struct(">BQ")
_ENTRY = struct.Struct(">B16s16sH")
_KEYED = 1
# A quarter of what a topic takes by default, so that no broker refuses it.
_RECORD_BYTES = 262_144


class Accepted(NamedTuple):
    """One call that was accepted. One is made for every call: a frozen dataclass takes three times as long."""

    digest: bytes
    """Of its key; where the caller gave none, drawn."""
    content: bytes
    answer: bytes
    is_keyed: bool
    time_ms: int


def encode_accepted(accepted: Sequence[Accepted], time_ms: int) -> list[bytes]:
    """Return the values of the records for one transaction: one, or more where there are many answers."""
    values: list[bytes] = []
    value = bytearray(_HEAD.pack(_FORMAT, time_ms))
    for each in accepted:
        if len(value) > _RECORD_BYTES:
            values.append(bytes(value))
            value = bytearray(_HEAD.pack(_FORMAT, time_ms))
        value += _ENTRY.pack(_KEYED if each.is_keyed else 0, each.digest, each.content, len(each.answer))
        value += each.answer
    return [*values, bytes(value)]


def decode_accepted(value: bytes, place: str) -> Iterable[Accepted]:
    """Return the calls of a record.

    :raises AcceptedLogInvalid: this version cannot read it, so it cannot know what was accepted.
    """
    if len(value) < _HEAD.size or value[0] != _FORMAT:
        raise AcceptedLogInvalid(
            f"{place} is not a record of accepted keys of format {_FORMAT}; if a newer version wrote it, run that one"
        )
    try:
        return list(_entries(value))
    except struct.error as error:
        raise AcceptedLogInvalid(f"{place} is cut off: {error}; was it written by another program?") from error


def _entries(value: bytes) -> Iterator[Accepted]:
    _, time_ms = _HEAD.unpack_from(value)
    at = _HEAD.size
    while at < len(value):
        flags, digest, content, length = _ENTRY.unpack_from(value, at)
        at += _ENTRY.size
        answer = value[at : at + length]
        if len(answer) != length:
            raise struct.error(f"{length} bytes of an answer expected, {len(answer)} found")
        at += length
        yield Accepted(digest, content, answer, bool(flags & _KEYED), time_ms)

"""Which partition the key of a record means. Pure."""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return where Kafka's clients put a record with this key: the Java client, and ours (``murmur2_random``)."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    count = len(data) // 4
    value = _SEED ^ len(data)
    for word in struct.unpack_from(f"<{count}I", data):
        mixed = word * _M & _MASK
        value = value * _M & _MASK ^ (mixed ^ mixed >> 24) * _M & _MASK
    rest = data[4 * count :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15

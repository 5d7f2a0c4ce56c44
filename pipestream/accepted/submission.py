"""One call that is to be accepted, and what its key becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from pipestream.errors import RequestInvalid
from pipestream.kafka.records import OutputRecord

DIGEST_BYTES = 16
"""Two of a billion keys have the same digest with a chance of 1 in 10^20."""
MAX_ANSWER_BYTES = 4_096
MAX_KEY_BYTES = 1_024


# Not frozen: that would take three times as long, for every call.
@dataclass(slots=True)
class Submission:
    """What a call writes to Kafka, and what it is answered once that is committed.

    ``outputs`` must be the same, or equally good, for every repeat of a key: those of the first one count.
    """

    outputs: Sequence[OutputRecord]
    answer: bytes
    """What this call and every repeat of it is answered with. Small: every key keeps its own."""
    key: str = ""
    """The caller's idempotency key. Without one, nobody can tell a repeat from a new call."""
    content: bytes = b""
    """``content_digest`` of the request, which tells a repeat from another call with the same key."""

    def __post_init__(self) -> None:
        if len(self.answer) > MAX_ANSWER_BYTES:
            raise RequestInvalid(f"an answer of {len(self.answer)} bytes; the accepted log takes {MAX_ANSWER_BYTES}")
        if self.content and len(self.content) != DIGEST_BYTES:
            raise RequestInvalid(f"the digest of a request has {DIGEST_BYTES} bytes, not {len(self.content)}")

    @property
    def size_bytes(self) -> int:
        """How much it adds to a transaction."""
        # Of a list: to go through a generator takes twice as long, for every call.
        return sum([output.size_bytes for output in self.outputs]) + len(self.answer) + 2 * DIGEST_BYTES


def content_digest(data: bytes) -> bytes:
    """Return what stands for a request's content."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


# Asked for several times on the way of a call: which slot, a repeat, the record.
@lru_cache(maxsize=1_024)
def key_digest(key: str) -> bytes:
    """Return what stands for a key.

    :raises RequestInvalid: it is longer than a key may be.
    """
    encoded = key.encode("utf-8", "surrogatepass")
    if len(encoded) > MAX_KEY_BYTES:
        raise RequestInvalid(f"an idempotency key of {len(encoded)} bytes; at most {MAX_KEY_BYTES} are allowed")
    return blake2b(encoded, digest_size=DIGEST_BYTES).digest()


def slot_of(key: str, slots: int) -> int:
    """Return the slot that accepts a key: the first 8 bytes of its BLAKE2b digest, as a number, modulo the slots."""
    return int.from_bytes(key_digest(key)[:8], "big") % slots

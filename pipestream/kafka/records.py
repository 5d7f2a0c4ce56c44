"""Kafka records, read and to be sent, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class InputRecord:
    """One record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record to be sent in a transaction."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def size_bytes(self) -> int:
        """How large it is before it is compressed, but for a few bytes of Kafka's own."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def header(headers: Sequence[tuple[str, bytes | None]], name: str) -> str | None:
    """Return the last value of a header, as Kafka's own tools read it."""
    for found, value in reversed(headers):
        if found == name:
            return (value or b"").decode("utf-8", "replace")
    return None

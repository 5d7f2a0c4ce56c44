"""Offsets of a topic partition as values."""

from __future__ import annotations

from dataclasses import dataclass

Partition = tuple[str, int]
"""A topic and a partition's number."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets ``start`` up to, not including, ``end`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"empty or negative range: {self.start}..{self.end}")

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] {self.start}..{self.end}"


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets a partition holds: ``low`` is readable, ``high`` is where a committed reader ends.

    ``high`` is the last stable offset: an upstream transaction left open holds it back, so a plan may
    rightly be shorter than what the broker's tools show.
    """

    low: int
    high: int

"""What the ledger keeps: plans made before the work, and entries made after it.

A **lane** is one reader of topics: a graph's everyday runs are the lane ``{graph_id}``, each of its backfills
the lane ``{graph_id}@{backfill_id}``. Heads are per lane, so a backfill never moves a live head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from pipestream.kafka.records import OffsetRange


@dataclass(frozen=True, slots=True, order=True)
class HeadMove(OffsetRange):
    """An operator moved the head from ``start`` to ``end``, which may lie before it. No record was drained."""

    def __post_init__(self) -> None:
        if self.start < 0 or self.end < 0:
            raise ValueError(f"negative offset: {self.start}..{self.end}")

    def __len__(self) -> int:
        return 0


class EntryKind(Enum):
    """Why a range has an entry."""

    DRAINED = "drained"
    RECOVERED = "recovered"
    """An earlier run did the work and died before it could record it."""
    REBASELINED = "rebaselined"
    """An operator moved the head by hand."""
    SKIPPED = "skipped"
    """Older than the place where the graph says that the topic starts."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the records of a range."""

    records: int = 0
    documents_out: Mapping[str, int] = field(default_factory=dict)
    """Documents sent, by edge id; ``happy-end`` and ``error-end`` for those that ended."""
    dead_letters: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict, compare=False)
    """What conditions decided, as ``pipestream.engine.decisions`` names it. A crash loses it, so it is not compared."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.records + other.records,
            _add(self.documents_out, other.documents_out),
            self.dead_letters + other.dead_letters,
            _add(self.decisions, other.decisions),
        )


def _add(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    total = dict(one)
    for name, count in other.items():
        total[name] = total.get(name, 0) + count
    return total


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is going to drain. Written before any work, never changed."""

    plan_id: str
    run_id: str
    lane: str
    topic: str
    topic_id: str
    slot: int
    graph_id: str
    graph_hash: str
    ranges: tuple[OffsetRange, ...]
    holder: str
    token: int
    planned_at: datetime
    doc_ids: tuple[str, ...] = ()
    """Of a backfill: only these documents; all, if empty."""
    sub_range_offsets: int = 0
    """How many offsets one task processes of a range; 0: one task drains each range whole."""
    wave_offsets: int = 0
    """How many offsets are processed before they are committed and recorded; 0: the ranges whole."""
    tasks_reason: str = ""
    """Why the work is cut into tasks like that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One range of one partition that is done."""

    lane: str
    range: OffsetRange
    topic_id: str
    kind: EntryKind
    run_id: str
    plan_id: str
    graph_id: str
    graph_hash: str
    holder: str
    token: int
    tally: Tally | None
    """``None`` where the run that did the work died with its counts."""
    seconds: float
    entered_at: datetime

"""What the ledger keeps: plans made before the work, entries made after it, and heads.

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
    """How a range came to be entered."""

    DRAINED = "drained"
    RECOVERED = "recovered"
    """An earlier run did the work and died before it could enter it."""
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

    def __add__(self, other: Tally) -> Tally:
        documents_out = dict(self.documents_out)
        for edge_id, count in other.documents_out.items():
            documents_out[edge_id] = documents_out.get(edge_id, 0) + count
        return Tally(self.records + other.records, documents_out, self.dead_letters + other.dead_letters)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run set out to drain. Written before any work, never changed."""

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
    """``None`` where the run that did the work took the numbers with it."""
    seconds: float
    entered_at: datetime

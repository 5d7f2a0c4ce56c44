"""What the ledger keeps: plans made before the work, entries made after it, and the rows that both become.

A **lane** is one reader of topics: a graph's everyday runs are the lane ``{graph_id}``, each of its backfills
the lane ``{graph_id}@{backfill_id}``. Heads are per lane, so a backfill never moves a live head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

import pyarrow as pa

from pipestream.arrow import to_table
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

    def __add__(self, other: Tally) -> Tally:
        documents_out = dict(self.documents_out)
        for edge_id, count in other.documents_out.items():
            documents_out[edge_id] = documents_out.get(edge_id, 0) + count
        return Tally(self.records + other.records, documents_out, self.dead_letters + other.dead_letters)


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


_TIME = pa.timestamp("us", "UTC")

PLANS_SCHEMA = pa.schema(
    [
        pa.field("plan_id", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("lane", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("topic_id", pa.string(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("graph_id", pa.string(), nullable=False),
        pa.field("graph_hash", pa.string(), nullable=False),
        pa.field("holder", pa.string(), nullable=False),
        pa.field("token", pa.int64(), nullable=False),
        pa.field("planned_at", _TIME, nullable=False),
        pa.field("doc_ids", pa.list_(pa.string())),
    ]
)

ENTRIES_SCHEMA = pa.schema(
    [
        pa.field("lane", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("topic_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("plan_id", pa.string(), nullable=False),
        pa.field("graph_id", pa.string(), nullable=False),
        pa.field("graph_hash", pa.string(), nullable=False),
        pa.field("holder", pa.string(), nullable=False),
        pa.field("token", pa.int64(), nullable=False),
        pa.field("records", pa.int64()),
        pa.field("documents_out", pa.map_(pa.string(), pa.int64())),
        pa.field("dead_letters", pa.int64()),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("entered_at", _TIME, nullable=False),
    ]
)


def plan_rows(plan: Plan) -> pa.Table:
    """Return a plan as one row per range."""
    shared = {name: getattr(plan, name) for name in PLANS_SCHEMA.names if name not in {"partition", "start", "end"}}
    rows = [{**shared, "partition": r.partition, "start": r.start, "end": r.end} for r in plan.ranges]
    return to_table(rows, PLANS_SCHEMA)


def plan_from_rows(rows: Sequence[dict[str, Any]]) -> Plan:
    """Return the plan whose rows these are; there is at least one."""
    first = rows[0]
    shared = {name: first[name] for name in PLANS_SCHEMA.names if name not in {"partition", "start", "end"}}
    ranges = tuple(sorted(OffsetRange(r["topic"], r["partition"], r["start"], r["end"]) for r in rows))
    return Plan(ranges=ranges, **{**shared, "doc_ids": tuple(first["doc_ids"] or ())})


def entry_rows(entries: Sequence[Entry]) -> pa.Table:
    """Return entries as rows."""
    return to_table([_entry_row(entry) for entry in entries], ENTRIES_SCHEMA)


def entry_from_row(row: dict[str, Any]) -> Entry:
    """Return the entry that a row holds."""
    tally = None
    if row["records"] is not None:
        tally = Tally(row["records"], dict(row["documents_out"] or ()), row["dead_letters"])
    taken = {"topic", "partition", "start", "end", "kind", "records", "documents_out", "dead_letters"}
    kind = EntryKind(row["kind"])
    offsets = HeadMove if kind is EntryKind.REBASELINED else OffsetRange
    return Entry(
        range=offsets(row["topic"], row["partition"], row["start"], row["end"]),
        kind=kind,
        tally=tally,
        **{name: row[name] for name in ENTRIES_SCHEMA.names if name not in taken},
    )


def _entry_row(entry: Entry) -> dict[str, Any]:
    tally = entry.tally
    return {
        "lane": entry.lane,
        "topic": entry.range.topic,
        "partition": entry.range.partition,
        "start": entry.range.start,
        "end": entry.range.end,
        "topic_id": entry.topic_id,
        "kind": entry.kind.value,
        "run_id": entry.run_id,
        "plan_id": entry.plan_id,
        "graph_id": entry.graph_id,
        "graph_hash": entry.graph_hash,
        "holder": entry.holder,
        "token": entry.token,
        "records": None if tally is None else tally.records,
        "documents_out": None if tally is None else tally.documents_out,
        "dead_letters": None if tally is None else tally.dead_letters,
        "seconds": entry.seconds,
        "entered_at": entry.entered_at,
    }

"""Plans and entries as rows of Arrow tables.

Imported by the functions that read or write rows, when they are called. Heads are no rows, and the check before a drain
asks for nothing else: so most of its time is not spent on importing pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipestream.arrow import to_table
from pipestream.kafka.records import OffsetRange
from pipestream.ledger.entries import Entry, EntryKind, HeadMove, Plan, Tally

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


def entries_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of some columns of entries."""
    return pa.schema([ENTRIES_SCHEMA.field(name) for name in columns])


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
        counted = dict(row["documents_out"] or ())
        out = {name: count for name, count in counted.items() if not is_decision(name)}
        decisions = {name: count for name, count in counted.items() if is_decision(name)}
        tally = Tally(row["records"], out, row["dead_letters"], decisions)
    taken = {"topic", "partition", "start", "end", "kind", "records", "documents_out", "dead_letters"}
    kind = EntryKind(row["kind"])
    offsets = HeadMove if kind is EntryKind.REBASELINED else OffsetRange
    return Entry(
        range=offsets(row["topic"], row["partition"], row["start"], row["end"]),
        kind=kind,
        tally=tally,
        **{name: row[name] for name in ENTRIES_SCHEMA.names if name not in taken},
    )


def is_decision(name: str) -> bool:
    """Tell whether a name of the column ``documents_out`` counts what conditions decided, not documents."""
    return " " in name


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
        # One column for both: a table that an earlier version made has no other, and its readers look up edges by id.
        "documents_out": None if tally is None else {**tally.documents_out, **tally.decisions},
        "dead_letters": None if tally is None else tally.dead_letters,
        "seconds": entry.seconds,
        "entered_at": entry.entered_at,
    }

"""The ledger: heads, entries, plans, and whether it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestream.ledger import Entry, Ledger, Plan
    from pipestream.views.audit import TopicAudit


def head_rows(ledger: Ledger, *, lane: str | None = None, topic: str | None = None) -> list[dict[str, Any]]:
    """Return how far each partition of each topic is drained, with the keys of ``--json``."""
    known = ledger.partitions(lane=lane, topic=topic)
    rows = []
    for found_lane, found_topic in sorted({(key[0], key[1]) for key in known}):
        partitions = [key[2] for key in known if key[:2] == (found_lane, found_topic)]
        for partition, head in sorted(ledger.heads(found_lane, found_topic, partitions).items()):
            rows.append({"lane": found_lane, "topic": found_topic, "partition": partition, "head": head})
    return rows


def entry_values(entry: Entry) -> dict[str, Any]:
    """Return an entry with the keys of ``--json``."""
    tally = entry.tally
    return {
        "lane": entry.lane,
        "topic": entry.range.topic,
        "partition": entry.range.partition,
        "start": entry.range.start,
        "end": entry.range.end,
        "kind": entry.kind,
        "run_id": entry.run_id,
        "plan_id": entry.plan_id,
        "graph_id": entry.graph_id,
        "graph_hash": entry.graph_hash,
        "holder": entry.holder,
        "token": entry.token,
        "records": tally.records if tally else None,
        "documents_out": dict(tally.documents_out) if tally else None,
        "dead_letters": tally.dead_letters if tally else None,
        "seconds": entry.seconds,
        "entered_at": entry.entered_at,
    }


def plan_values(plan: Plan) -> dict[str, Any]:
    """Return a plan with the keys of ``--json``."""
    return {
        "plan_id": plan.plan_id,
        "run_id": plan.run_id,
        "lane": plan.lane,
        "topic": plan.topic,
        "slot": plan.slot,
        "ranges": [{"partition": r.partition, "start": r.start, "end": r.end} for r in plan.ranges],
        "graph_id": plan.graph_id,
        "graph_hash": plan.graph_hash,
        "holder": plan.holder,
        "token": plan.token,
        "planned_at": plan.planned_at,
        "sub_range_offsets": plan.sub_range_offsets,
        "wave_offsets": plan.wave_offsets,
        "tasks_reason": plan.tasks_reason,
    }


def audit_values(lane: str, audit: TopicAudit) -> dict[str, Any]:
    """Return whether a topic's entries are complete, with the keys of ``--json``."""
    faults: Sequence[dict[str, Any]] = [
        {"kind": fault.kind, "partition": fault.partition, "message": fault.message} for fault in audit.faults
    ]
    return {"lane": lane, "topic": audit.topic, "entries": len(audit.entries), "lag": audit.lag, "faults": faults}

"""Leases: who holds which slot of which topic, and what the operator wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipestream.leases import Assignment, LeaseStore


def slot_row(store: LeaseStore, assignment: Assignment) -> dict[str, Any]:
    """Return a slot with the keys of ``--json``."""
    state = store.desired(assignment.topic)
    graph_id, _, backfill_id = assignment.lane.partition("@")
    return {
        "topic": assignment.topic,
        "graph": graph_id,
        "backfill": backfill_id,
        "started": state.started,
        "replicas": state.replicas,
        "mode": state.mode.value,
        "slot": assignment.slot,
        "holder": assignment.holder,
        "until": assignment.until,
        "token": assignment.token,
    }

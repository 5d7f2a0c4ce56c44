"""Leases: who holds which slot of which topic, and what the operator wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipestream.graph.flow import topic_targets

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.leases import Assignment, DesiredState, LeaseStore

NO_LEASES = (
    "No leases: replicas do not apply. Every run drains all partitions of its topic, and as many drains run as are "
    "started; each record still comes out exactly once."
)
"""What the operator is told where the lease store is ``none``."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the operator wants of a topic."""

    topic: str
    node: str
    desired: str
    """``started`` or ``stopped``."""
    replicas: int
    mode: str
    """``batch`` or ``streaming``."""


@dataclass(frozen=True, slots=True)
class DatasourceState:
    """Whether a datasource is paused in its graph."""

    id: str
    paused: bool


@dataclass(frozen=True, slots=True)
class PipelineState:
    """What the operator wants of a pipeline. A value that its topics do not share is ``mixed``, or None."""

    desired: str
    replicas: int | None
    mode: str
    lease_store: str
    replicas_apply: bool
    notice: str
    topics: tuple[TopicState, ...]
    datasources: tuple[DatasourceState, ...]


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A slot of a topic, and who has it; ``holder`` is empty for a free slot."""

    topic: str
    slot: int
    holder: str
    until: datetime | None
    token: int
    backfill: str
    """The id of the backfill that it is of; empty: of live runs."""


def desired_states(store: LeaseStore, topics: Iterable[str]) -> dict[str, DesiredState]:
    """Return what is wanted of topics, in one question where the store can answer it."""
    names = list(topics)
    ask_all = getattr(store, "desired_many", None)
    if ask_all is not None:
        found: dict[str, DesiredState] = ask_all(names)
        return found
    return {topic: store.desired(topic) for topic in names}


def pipeline_state(graph: Graph, desired: Mapping[str, DesiredState], lease_store: str) -> PipelineState:
    """Return what is wanted of a pipeline, topic by topic and as a whole."""
    targets = topic_targets(graph)
    topics = tuple(
        TopicState(topic, targets[topic], "started" if state.started else "stopped", state.replicas, state.mode.value)
        for topic, state in sorted(desired.items())
    )
    replicas = {each.replicas for each in topics}
    has_leases = lease_store != "none"
    return PipelineState(
        desired=common(each.desired for each in topics) or "started",
        replicas=replicas.pop() if len(replicas) == 1 else None,
        mode=common(each.mode for each in topics) or "batch",
        lease_store=lease_store,
        replicas_apply=has_leases,
        notice="" if has_leases else NO_LEASES,
        topics=topics,
        datasources=tuple(DatasourceState(each.datasource_id, each.paused) for each in graph.datasources),
    )


def slots_of_graph(graph: Graph, assignments: Iterable[Assignment]) -> list[SlotHolder]:
    """Return the slots of a graph's topics, in its live lane and in its backfills."""
    found = []
    for each in assignments:
        lane, _, backfill = each.lane.partition("@")
        if lane == graph.graph_id:
            found.append(SlotHolder(each.topic, each.slot, each.holder, each.until, each.token, backfill))
    return found


def common(values: Iterable[str]) -> str:
    """Return the value that all have in common, or ``mixed``; empty where there is none."""
    found = set(values)
    return found.pop() if len(found) == 1 else "mixed" if found else ""


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

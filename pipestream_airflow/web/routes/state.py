"""The state of a pipeline: started or stopped, replicas, mode; and who holds which slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from pipestream.api.modes import change_topics
from pipestream.errors import RequestInvalid
from pipestream.graph.flow import topic_targets
from pipestream.graph.model import Graph
from pipestream.leases.store import MAX_REPLICAS
from pipestream.topics.required import leased_topics
from pipestream.views.leases import (
    NO_LEASES,
    PipelineState,
    SlotHolder,
    desired_states,
    pipeline_state,
    slots_of_graph,
)
from pipestream_airflow.web.access import READS, PipelineId, writes
from pipestream_airflow.web.services import Services, ServicesDep

router = APIRouter(tags=["state"])

Desired = Literal["started", "stopped"]
Mode = Literal["batch", "streaming"]
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]


@dataclass(frozen=True, slots=True)
class WholeState:
    """What is wanted of all topics of a pipeline."""

    desired: Desired
    replicas: Replicas
    mode: Mode = "batch"


@dataclass(frozen=True, slots=True)
class StateChange:
    """What to change; what is not given stays as it is."""

    desired: Desired | None = None
    replicas: Replicas | None = None
    mode: Mode | None = None
    topics: list[str] | None = None
    """Only these topics; all of the pipeline unless given."""


@dataclass(frozen=True, slots=True)
class Assignments:
    """Who holds which slot."""

    lease_store: str
    replicas_apply: bool
    notice: str
    assignments: list[SlotHolder]


@router.get("/pipelines/{pipeline_id}/state", dependencies=READS)
async def show_state(pipeline_id: PipelineId, services: ServicesDep) -> PipelineState:
    """Show what is wanted of a pipeline and of each of its topics."""
    return await _state(services, await services.find_active(pipeline_id))


@router.put("/pipelines/{pipeline_id}/state", dependencies=writes("pipestream_set_state"))
async def set_state(pipeline_id: PipelineId, wanted: WholeState, services: ServicesDep) -> PipelineState:
    """Say what is wanted of all topics of a pipeline."""
    return await _change(services, pipeline_id, StateChange(wanted.desired, wanted.replicas, wanted.mode))


@router.patch("/pipelines/{pipeline_id}/state", dependencies=writes("pipestream_change_state"))
async def change_state(pipeline_id: PipelineId, wanted: StateChange, services: ServicesDep) -> PipelineState:
    """Change some of what is wanted of a pipeline, or of some of its topics."""
    if wanted.desired is None and wanted.replicas is None and wanted.mode is None:
        raise RequestInvalid("say what to change: desired, replicas or mode")
    return await _change(services, pipeline_id, wanted)


@router.get("/pipelines/{pipeline_id}/assignments", dependencies=READS)
async def show_assignments(
    pipeline_id: PipelineId, services: ServicesDep, topic: Annotated[str | None, Query(max_length=249)] = None
) -> Assignments:
    """Show every slot of the pipeline's topics: its holder, until when, and the fencing token."""
    graph = await services.find_active(pipeline_id)
    if topic is not None and topic not in topic_targets(graph):
        raise RequestInvalid(f"graph {pipeline_id} does not drain {topic!r}")
    found = await services.lease_gate.ask("assignments", services.leases.assignments)
    held = [each for each in slots_of_graph(graph, found) if topic in (None, each.topic)]
    has_leases = services.settings.leases != "none"
    return Assignments(services.settings.leases, has_leases, "" if has_leases else NO_LEASES, held)


async def _state(services: Services, graph: Graph) -> PipelineState:
    topics = leased_topics(graph)
    desired = await services.lease_gate.ask(("desired", *topics), lambda: desired_states(services.leases, topics))
    return pipeline_state(graph, desired, services.settings.leases)


async def _change(services: Services, pipeline_id: str, wanted: StateChange) -> PipelineState:
    graph = await services.find_active(pipeline_id)
    own = leased_topics(graph)
    topics = own if wanted.topics is None else list(dict.fromkeys(wanted.topics))
    if unknown := [topic for topic in topics if topic not in own]:
        raise RequestInvalid(f"graph {pipeline_id} does not drain {', '.join(map(repr, unknown[:5]))}")
    started = None if wanted.desired is None else wanted.desired == "started"
    await services.actions.ask(
        ("state", pipeline_id, wanted.desired, wanted.replicas, wanted.mode, *topics),
        lambda: change_topics(
            topics, started=started, replicas=wanted.replicas, mode=wanted.mode, settings=services.full_settings
        ),
    )
    return await _state(services, graph)

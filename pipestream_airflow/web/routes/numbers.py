"""The live numbers of a pipeline, for its picture."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from pipestream.views.leases import slots_of_graph
from pipestream.views.numbers import EdgeNumbers, NodeNumbers, edge_numbers, node_numbers, read_drained
from pipestream.views.timeline import Window
from pipestream_airflow.web.access import READS, PipelineId
from pipestream_airflow.web.questions import SHARED_S, Unavailable, ask_parts, count_letters, find_standing
from pipestream_airflow.web.services import ServicesDep

router = APIRouter(tags=["pipelines"])


@dataclass(frozen=True, slots=True)
class Numbers:
    """What goes on at the nodes and edges of a pipeline."""

    at: datetime
    window_s: int
    nodes: list[NodeNumbers]
    edges: list[EdgeNumbers]
    unavailable: list[Unavailable]


@router.get("/pipelines/{pipeline_id}/numbers", dependencies=READS)
async def show_numbers(
    pipeline_id: PipelineId,
    services: ServicesDep,
    window_s: Annotated[int, Query(ge=60, le=31 * 86_400, description="What was drained in this time.")] = 3_600,
) -> Numbers:
    """Show what waits, how fast it is drained, who works on it and what has failed, by node and edge."""
    graph = await services.find_active(pipeline_id)
    now = datetime.now(UTC)
    window = Window(pipeline_id, now - timedelta(seconds=window_s), now + timedelta(seconds=60))
    parts = await ask_parts(
        standing=("kafka", find_standing(services)),
        letters=("kafka", count_letters(services)),
        # Under a key of its own: whoever has just changed the replicas asks for the assignments as they are now.
        slots=("leases", services.lease_gate.ask("slots", services.leases.assignments, keep_s=SHARED_S)),
        drained=(
            "ledger",
            services.store.ask(
                ("drained", pipeline_id, window_s), lambda: read_drained(services.ledger, window), keep_s=SHARED_S
            ),
        ),
    )
    slots = parts.get("slots")
    held = slots_of_graph(graph, slots) if slots is not None else None
    drained = parts.get("drained")
    nodes = node_numbers(graph, parts.get("standing"), parts.get("letters"), held, drained)
    return Numbers(now, window_s, nodes, edge_numbers(graph, drained), parts.unavailable)

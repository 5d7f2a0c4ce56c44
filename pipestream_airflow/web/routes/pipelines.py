"""Pipelines: list them, and show one."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.api_fastapi.core_api.security import GetUserDep
from anyio.to_thread import run_sync
from fastapi import APIRouter

from pipestream.topics.required import leased_topics
from pipestream.views.layout import Picture, lay_out
from pipestream.views.leases import desired_states
from pipestream.views.parts import GraphParts, graph_parts
from pipestream.views.pipelines import KnownPipeline, PipelineRow, pipeline_row
from pipestream_airflow.web.access import READS, PipelineId, visible
from pipestream_airflow.web.questions import Unavailable, ask_parts, count_letters, find_standing
from pipestream_airflow.web.services import Services, ServicesDep

router = APIRouter(tags=["pipelines"])

# A version never changes, and laying out a large one takes tens of milliseconds.
_LAYOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class PipelineList:
    """All pipelines that the user may see."""

    pipelines: list[PipelineRow]
    unavailable: list[Unavailable]


@dataclass(frozen=True, slots=True)
class PipelineDetail:
    """One pipeline."""

    pipeline: PipelineRow
    yaml: str
    file_yaml: str
    """The text of the graph's file, where that differs from the active version; else empty."""
    picture: GraphParts | None
    """None for a graph that cannot be read: ``pipeline.problems`` says why."""
    layout: Picture | None
    """Where to draw boxes and lines."""
    unavailable: list[Unavailable]


@router.get("/pipelines", dependencies=READS)
async def list_pipelines(services: ServicesDep, user: GetUserDep) -> PipelineList:
    """List every graph that was applied or has a file, and where it stands."""
    known = await services.database.ask("pipelines", services.pipelines.read)
    seen = await run_sync(visible, user, list(known))
    rows, unavailable = await _rows(services, [each for each in known.values() if each.pipeline_id in seen])
    return PipelineList(rows, unavailable)


@router.get("/pipelines/{pipeline_id}", dependencies=READS)
async def show_pipeline(pipeline_id: PipelineId, services: ServicesDep) -> PipelineDetail:
    """Show one pipeline: its parts, its YAML, and where its picture has which box."""
    known = await services.database.ask(("pipeline", pipeline_id), lambda: services.pipelines.find(pipeline_id))
    rows, unavailable = await _rows(services, [known])
    graph = known.graph
    if graph is None:
        return PipelineDetail(rows[0], known.to_yaml(), known.differing_file(), None, None, unavailable)
    keep_s = _LAYOUT_S if known.hash else 0.0
    drawn = await services.store.ask(("layout", pipeline_id, known.hash), lambda: lay_out(graph), keep_s=keep_s)
    return PipelineDetail(rows[0], known.to_yaml(), known.differing_file(), graph_parts(graph), drawn, unavailable)


async def _rows(services: Services, pipelines: list[KnownPipeline]) -> tuple[list[PipelineRow], list[Unavailable]]:
    """Return the rows of pipelines. If Kafka or the lease store does not answer, only what it knows is missing."""
    graphs = [each.active.built.graph for each in pipelines if each.active]
    topics = sorted({topic for graph in graphs for topic in leased_topics(graph)})
    parts = await ask_parts(
        standing=("kafka", find_standing(services)),
        letters=("kafka", count_letters(services)),
        desired=(
            "leases",
            services.lease_gate.ask(("desired", *topics), lambda: desired_states(services.leases, topics)),
        ),
    )
    desired = parts.get("desired") or {}
    rows = []
    for each in pipelines:
        own = leased_topics(each.active.built.graph) if each.active else ()
        wanted = {topic: desired[topic] for topic in own if topic in desired}
        rows.append(pipeline_row(each, wanted, parts.get("standing"), parts.get("letters")))
    return rows, parts.unavailable

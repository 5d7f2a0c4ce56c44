"""Try conditions and mappings on documents, and explain the route of one. Nothing is changed, no module runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from pipestream.engine.explain import Explanation, explain
from pipestream.errors import RequestInvalid
from pipestream.graph.model import Graph
from pipestream.views.trials import ConditionTrial, MappingTrial, read_document, try_condition, try_mappings
from pipestream.wire import PipeDoc
from pipestream_airflow.web.access import TRIES, PipelineId
from pipestream_airflow.web.questions import find_stored
from pipestream_airflow.web.services import Services, ServicesDep

router = APIRouter(tags=["try things"])


@dataclass(frozen=True, slots=True)
class Sample:
    """A document: pasted as protobuf's JSON, or stored, by its id and the key of its object."""

    document: dict[str, Any] | None = None
    doc_id: Annotated[str, Field(max_length=200)] = ""
    key: Annotated[str, Field(max_length=1_024)] = ""


@dataclass(frozen=True, slots=True)
class ConditionRequest:
    """A condition, and the document to try it on."""

    condition: Annotated[str, Field(min_length=1, max_length=10_000)]
    sample: Sample


@dataclass(frozen=True, slots=True)
class MappingRequest:
    """Mappings as in a graph file, and the documents to apply them to."""

    mappings: Annotated[list[dict[str, Any]], Field(max_length=200)]
    samples: Annotated[list[Sample], Field(min_length=1, max_length=20)]


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A document, and where it starts; at every entry of the graph unless given."""

    sample: Sample
    at: Annotated[str, Field(max_length=80)] = field(default="")


@router.post("/pipelines/{pipeline_id}/conditions/try", dependencies=TRIES)
async def try_one_condition(pipeline_id: PipelineId, wanted: ConditionRequest, services: ServicesDep) -> ConditionTrial:
    """Say what a condition is on a document: true, false, or why it fails."""
    graph = await services.find_active(pipeline_id)
    document = await _document(wanted.sample, graph, services)
    engine = services.settings.cel_engine
    return await services.store.ask(object(), lambda: try_condition(wanted.condition, document, engine))


@router.post("/pipelines/{pipeline_id}/mappings/preview", dependencies=TRIES)
async def preview_mappings(pipeline_id: PipelineId, wanted: MappingRequest, services: ServicesDep) -> MappingTrial:
    """Show what mappings make of sample documents."""
    graph = await services.find_active(pipeline_id)
    documents = [await _document(sample, graph, services) for sample in wanted.samples]
    engine = services.settings.cel_engine
    return await services.store.ask(object(), lambda: try_mappings(wanted.mappings, documents, engine))


@router.post("/pipelines/{pipeline_id}/explain", dependencies=TRIES)
async def explain_route(pipeline_id: PipelineId, wanted: ExplainRequest, services: ServicesDep) -> Explanation:
    """Show which route a document would take from here, and why."""
    graph = await services.find_active(pipeline_id)
    if wanted.at and wanted.at not in graph.node_by_id:
        raise RequestInvalid(f"graph {pipeline_id} has no node {wanted.at!r}")
    document = await _document(wanted.sample, graph, services)
    engine = services.settings.cel_engine
    return await services.store.ask(object(), lambda: explain(graph, document, engine=engine, start_node_id=wanted.at))


async def _document(sample: Sample, graph: Graph, services: Services) -> PipeDoc:
    if (sample.document is None) == (not sample.key):
        raise RequestInvalid("give a document, or the doc_id and key of a stored one")
    if sample.document is not None:
        return read_document(sample.document)
    return await find_stored(services, graph, sample.key, sample.doc_id)

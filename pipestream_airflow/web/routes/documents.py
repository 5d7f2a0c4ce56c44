"""A document: its receipt, and what is stored of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query

from pipestream.ids import check_key_part
from pipestream.views.arrivals import Arrival, newest_documents
from pipestream.views.documents import StoredDocument, show_document
from pipestream.views.receipt import Receipt, find_catalogued, make_receipt
from pipestream_airflow.web.access import READS, PipelineId
from pipestream_airflow.web.questions import SHARED_S, find_stored
from pipestream_airflow.web.services import ServicesDep

router = APIRouter(tags=["documents"])

DocId = Annotated[str, Path(max_length=200, description="The id of a document.")]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Documents that came in, newest first."""

    documents: list[Arrival]


@router.get("/pipelines/{pipeline_id}/documents", dependencies=READS)
async def list_newest(
    pipeline_id: PipelineId, services: ServicesDep, limit: Annotated[int, Query(ge=1, le=200)] = 25
) -> Arrivals:
    """List the documents that came in last."""
    graph = await services.find_active(pipeline_id)
    found = await services.kafka.ask(
        ("arrivals", pipeline_id, limit), lambda: newest_documents(graph, services.settings, limit), keep_s=SHARED_S
    )
    return Arrivals(found)


@router.get("/pipelines/{pipeline_id}/documents/{doc_id}", dependencies=READS)
async def show_receipt(pipeline_id: PipelineId, doc_id: DocId, services: ServicesDep) -> Receipt:
    """Show everything that a document met: records, ranges, hops, dead letters, objects, with times."""
    graph = await services.find_active(pipeline_id)
    check_key_part(doc_id, "document id")
    rows = await services.database.ask(
        ("catalogued", pipeline_id, doc_id), lambda: find_catalogued(services.catalogue, graph, doc_id)
    )
    versions = await services.database.ask(
        ("hashes", pipeline_id), lambda: {each.hash: each.version for each in services.versions.history(pipeline_id)}
    )
    return await services.kafka.ask(
        ("receipt", pipeline_id, doc_id),
        lambda: make_receipt(graph, doc_id, rows, versions, services.settings, services.ledger),
        patience_s=services.settings.web_action_s,
    )


@router.get("/pipelines/{pipeline_id}/documents/{doc_id}/stored", dependencies=READS)
async def show_stored(
    pipeline_id: PipelineId,
    doc_id: DocId,
    key: Annotated[str, Query(max_length=1_024, description="The key of an object of the receipt.")],
    services: ServicesDep,
) -> StoredDocument:
    """Show a document as it is stored: JSON of a bounded size, without blobs."""
    graph = await services.find_active(pipeline_id)
    return show_document(await find_stored(services, graph, key, doc_id), key)

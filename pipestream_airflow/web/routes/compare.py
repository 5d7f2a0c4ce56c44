"""Compare a changed graph with the active one on documents that were drained before. Nothing is changed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request

from pipestream.comparison.apart import compare_apart
from pipestream.comparison.compare import CompareRequest, Comparison
from pipestream_airflow.web.access import PipelineId, writes
from pipestream_airflow.web.routes.editing import GraphText, read_text
from pipestream_airflow.web.routes.ledger import check_times
from pipestream_airflow.web.services import ServicesDep

router = APIRouter(tags=["pipelines"])

_MOST_RECORDS = 1_000
"""More than these takes minutes; the command line has the time."""
_CHILD_SHARE, _KILL_SHARE = 0.75, 0.95
"""Of the time that a page waits for an action: when the comparison stops by itself, and when it is killed."""


# In the audit log, because modules are called.
@router.post("/pipelines/{pipeline_id}/compare", dependencies=writes("pipestream_compare"))
async def compare(
    request: Request,
    pipeline_id: PipelineId,
    text: GraphText,
    services: ServicesDep,
    documents: Annotated[int, Query(ge=1, le=_MOST_RECORDS, description="The most records, the latest first.")] = 100,
    topic: Annotated[list[str] | None, Query(max_length=50, description="The intake topics unless given.")] = None,
    since: Annotated[datetime | None, Query(description="Of ranges recorded then or later.")] = None,
    until: Annotated[datetime | None, Query(description="Of ranges recorded before.")] = None,
) -> Comparison:
    """List the drained documents that a changed graph would route or process differently. Modules are called."""
    changed = await read_text(request, text, services, pipeline_id)
    if not services.settings.web_compare:
        raise HTTPException(409, "comparing here is switched off (web_compare); use `pipestream graph compare FILE`")
    check_times(since, until)
    active = await services.find_active(pipeline_id)
    patience_s = services.settings.web_action_s
    wanted = CompareRequest(tuple(topic or ()), documents, since, until, _CHILD_SHARE * patience_s)
    return await services.comparisons.ask(
        ("compare", pipeline_id, text, wanted),
        lambda: compare_apart(active, changed, wanted, _KILL_SHARE * patience_s, services.variables),
    )

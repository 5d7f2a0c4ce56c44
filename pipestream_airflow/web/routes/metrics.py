"""``GET /pipestream/metrics``: what no single process can count, computed when Prometheus asks."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from pipestream.views.exporter import DrainedCollector, StandingCollector
from pipestream_airflow.web.access import READS
from pipestream_airflow.web.errors import ERROR_ANSWERS
from pipestream_airflow.web.services import ServicesDep

router = APIRouter(tags=["metrics"], responses=ERROR_ANSWERS)


@router.get("/metrics", dependencies=READS, response_class=PlainTextResponse)
async def show_metrics(services: ServicesDep) -> PlainTextResponse:
    """Return what waits and what was drained in Prometheus' text format."""

    def scrape() -> bytes:
        registry = CollectorRegistry()
        graphs = [each.built.graph for each in services.pipelines.active().values()]
        registry.register(StandingCollector(services.standing, lambda: graphs))
        registry.register(DrainedCollector(services.totals, lambda: graphs))
        return generate_latest(registry)

    text = await services.kafka.ask("metrics", scrape)
    return PlainTextResponse(text, media_type=CONTENT_TYPE_LATEST)

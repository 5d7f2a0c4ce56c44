"""The ledger of a pipeline: ranges, runs, gaps, and series for plots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from pipestream.errors import PipestreamError, RequestInvalid
from pipestream.graph.flow import drained_topics
from pipestream.views.backlog import add_backlog
from pipestream.views.gaps import LedgerFault, ledger_faults
from pipestream.views.timeline import (
    EntryPage,
    RunRow,
    RunTotals,
    Series,
    Window,
    entry_page,
    keep_busiest,
    read_drained_over_time,
    run_page,
    topic_series,
)
from pipestream_airflow.web.access import READS, PipelineId
from pipestream_airflow.web.questions import SHARED_S, Unavailable
from pipestream_airflow.web.services import ServicesDep

router = APIRouter(tags=["ledger"])

_DAY = timedelta(days=1)
_PLOTTED_TOPICS = 9
"""As many as a plot can show in colours of their own. Kafka is asked about each of them at every point."""

Since = Annotated[datetime | None, Query(description="Recorded then or later; a day before `until` unless given.")]
Until = Annotated[datetime | None, Query(description="Recorded before; now unless given.")]
Topic = Annotated[str | None, Query(max_length=249)]


def check_times(*moments: datetime | None) -> None:
    """Refuse times that nothing was recorded at.

    :raises RequestInvalid: one has no time zone, or is not of this era.
    """
    given = [moment for moment in moments if moment is not None]
    if any(not 1970 <= moment.year < 9_999 for moment in given):
        raise RequestInvalid("since and until must lie between the years 1970 and 9998")
    if any(moment.tzinfo is None for moment in given):
        raise RequestInvalid("since and until need a time zone, such as 2026-11-17T20:00:00Z")


def read_window(
    pipeline_id: PipelineId,
    since: Since = None,
    until: Until = None,
    topic: Topic = None,
    partition: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> Window:
    """Return the window that a request asks for.

    :raises RequestInvalid: it ends before it begins, or has no time zone.
    """
    check_times(since, until)
    end = until or datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    begin = since or end - _DAY
    if begin >= end:
        raise RequestInvalid("since must be earlier than until")
    return Window(pipeline_id, begin, end, topic, partition)


WindowDep = Annotated[Window, Depends(read_window)]


@dataclass(frozen=True, slots=True)
class Entries:
    """A page of entries, newest first."""

    since: datetime
    until: datetime
    page: EntryPage


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that recorded something in a window, newest first, and the totals of all of them."""

    since: datetime
    until: datetime
    runs: list[RunRow]
    totals: RunTotals


@dataclass(frozen=True, slots=True)
class Gaps:
    """Where the ledger is not complete."""

    faults: list[LedgerFault]


@dataclass(frozen=True, slots=True)
class Plots:
    """What was drained over time, and what waited."""

    since: datetime
    until: datetime
    plots: Series
    unavailable: list[Unavailable]


@router.get("/pipelines/{pipeline_id}/ledger/entries", dependencies=READS)
async def list_entries(
    window: WindowDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Entries:
    """List ranges that were recorded in a time window, newest first, backfills included."""
    page = await services.store.ask(
        ("entries", window, limit, offset),
        lambda: entry_page(services.ledger, window, limit=limit, offset=offset),
        keep_s=SHARED_S,
    )
    return Entries(window.since, window.until, page)


@router.get("/pipelines/{pipeline_id}/ledger/runs", dependencies=READS)
async def list_runs(
    window: WindowDep, services: ServicesDep, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> Runs:
    """List the runs that recorded something in a time window, and what each did."""
    found = await services.store.ask(
        ("runs", window, limit), lambda: run_page(services.ledger, window, limit), keep_s=SHARED_S
    )
    return Runs(window.since, window.until, found.runs, found.totals)


@router.get("/pipelines/{pipeline_id}/ledger/gaps", dependencies=READS)
async def list_gaps(pipeline_id: PipelineId, services: ServicesDep) -> Gaps:
    """Say where entries of the live lane do not join; empty: the ledger is complete so far."""
    graph = await services.find_active(pipeline_id)
    topics = [each.topic for each in drained_topics(graph)]
    found = await services.store.ask(
        ("gaps", pipeline_id), lambda: ledger_faults(services.ledger, pipeline_id, topics), keep_s=SHARED_S
    )
    return Gaps(found)


@router.get("/pipelines/{pipeline_id}/ledger/series", dependencies=READS)
async def show_series(
    window: WindowDep, services: ServicesDep, points: Annotated[int, Query(ge=2, le=200)] = 60
) -> Plots:
    """Return throughput and backlog over time, for plots."""
    graph = await services.find_active(window.graph_id)
    drained = list(dict.fromkeys(each.topic for each in drained_topics(graph)))
    if window.topic is not None and window.topic not in drained:
        raise RequestInvalid(f"graph {window.graph_id} does not drain {window.topic!r}")
    entries = await services.store.ask(
        ("drained", window), lambda: read_drained_over_time(services.ledger, window), keep_s=SHARED_S
    )
    plots = await services.store.ask(
        ("series", window, points), lambda: topic_series(entries, window, points), keep_s=SHARED_S
    )
    topics = [window.topic] if window.topic else drained
    unavailable = []
    try:
        plots = await services.kafka.ask(
            ("backlog", window, points),
            lambda: add_backlog(
                plots,
                entries,
                window,
                topics,
                _PLOTTED_TOPICS,
                settings=services.settings,
                ledger=services.ledger,
            ),
            keep_s=SHARED_S,
        )
    except PipestreamError as error:
        plots = keep_busiest(plots, {}, _PLOTTED_TOPICS)
        unavailable.append(Unavailable("kafka", str(error)))
    return Plots(window.since, window.until, plots, unavailable)

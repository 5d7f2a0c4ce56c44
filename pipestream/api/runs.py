"""Bring documents in, drain topics, drain them again, send dead letters back, and read the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pipestream.api.graphs import GraphSource, read_graph
from pipestream.api.requests import run_request
from pipestream.connectors.folder import FolderConnector
from pipestream.connectors.ingest import find_datasource, ingest
from pipestream.connectors.report import IngestReport
from pipestream.dead_letters import (
    Act,
    ActionReport,
    ActionRequest,
    LetterId,
    Selection,
    dead_letter_topics,
    run_action,
)
from pipestream.dead_letters.decisions import DEFAULT_MAX_REPLAYS
from pipestream.drain.backfill import Backfill
from pipestream.drain.left_alone import find_active, why_left_alone
from pipestream.drain.report import DrainReport
from pipestream.drain.request import DrainRequest
from pipestream.errors import RequestInvalid
from pipestream.graph.flow import why_inactive
from pipestream.ids import new_run_id
from pipestream.ledger import Ledger
from pipestream.settings import Settings, load_settings
from pipestream.times import to_utc
from pipestream.user import user_name


def ingest_datasource(
    graph: GraphSource,
    datasource_id: str,
    *,
    folder: Path | str | None = None,
    pattern: str = "*",
    force: bool = False,
    progress: Callable[[IngestReport], None] | None = None,
    settings: Settings | None = None,
) -> IngestReport:
    """Store the documents that a datasource's connector finds, and publish them to its intake topic.

    Documents that are unchanged since the last time are skipped. Documents that cannot be read are in the report's
    ``failed``; all others are ingested. Nothing is done for a graph in design or for a paused datasource; the report's
    ``skipped`` says why.

    :param folder: ingest the files of this folder instead of what the connector finds.
    :param pattern: with a folder, only files whose names match.
    :param force: publish also documents that are unchanged.
    :param progress: called now and then with the report so far.
    :raises RequestInvalid: the graph has no such datasource, or that has no connector.
    :raises TopicMissing: there is no intake topic; apply the graph first.
    :raises TransientError: a server did not answer; call it again, and it resumes.
    """
    graph = read_graph(graph)
    datasource = find_datasource(graph, datasource_id)
    if reason := why_inactive(graph, datasource_id):
        return IngestReport(datasource_id, skipped=reason)
    settings = settings or load_settings()
    if reason := why_left_alone(find_active(settings, [graph.graph_id]), graph.graph_id, datasource_id):
        return IngestReport(datasource_id, skipped=reason)
    connector = None if folder is None else FolderConnector(Path(folder), pattern)
    return ingest(settings, datasource, connector, force=force, progress=progress)


def drain_topic(
    graph: GraphSource,
    topic: str,
    *,
    run_id: str = "",
    budget: int | None = None,
    accept_failures: bool = False,
    start_at: str = "",
    settings: Settings | None = None,
) -> DrainReport:
    """Drain what waits in a topic of a graph, in this process, and record it in the ledger.

    The report's ``status`` is ``drained``, ``empty`` (nothing waits) or ``skipped`` (another run has the lease, the
    topic is stopped, or its datasource is paused or the graph in design, here or in its active version; ``reason``
    says which).

    :param run_id: names the run. A retry under the same id resumes its plan. Generated unless given.
    :param budget: most offsets to drain from each slot; the setting ``drain_budget`` unless given.
    :param accept_failures: write dead letters even if most records fail.
    :param start_at: where a topic that was never drained starts; where the graph says, unless given.
    :raises RequestInvalid: the graph does not drain the topic.
    :raises TransientError: a server did not answer; drain again under the same ``run_id``.
    """
    settings = settings or load_settings()
    request = DrainRequest(
        graph=read_graph(graph),
        topic=topic,
        run_id=run_id or new_run_id("run"),
        budget=settings.drain_budget if budget is None else budget,
        accept_failures=accept_failures,
        start_at=start_at,
    )
    return run_request(request, settings)


def backfill_topic(
    graph: GraphSource,
    topic: str,
    backfill_id: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    offsets: Mapping[int, tuple[int, int]] | None = None,
    doc_ids: Sequence[str] = (),
    budget: int | None = None,
    accept_failures: bool = False,
    settings: Settings | None = None,
) -> DrainReport:
    """Drain a past range of a topic again, in this process. The live heads do not move.

    :param backfill_id: names the backfill. Repeated under its id it resumes; once finished, it does nothing.
    :param since: records from this time on; the time needs a zone.
    :param until: records before this time.
    :param offsets: instead of times: start and end (not included) per partition.
    :param doc_ids: only these documents.
    :raises BackfillInvalid: it has neither times nor offsets, or both, or offsets that do not exist.
    :raises OffsetsExpired: Kafka no longer holds what is asked for.
    """
    settings = settings or load_settings()
    request = DrainRequest(
        graph=read_graph(graph),
        topic=topic,
        run_id=new_run_id(f"backfill-{backfill_id}"),
        budget=settings.drain_budget if budget is None else budget,
        backfill=Backfill(backfill_id, _utc("since", since), _utc("until", until), offsets, tuple(doc_ids)),
        accept_failures=accept_failures,
    )
    return run_request(request, settings)


def replay_dead_letters(
    *graphs: GraphSource,
    topics: Sequence[str] = (),
    nodes: Sequence[str] = (),
    errors: Sequence[str] = (),
    doc_ids: Sequence[str] = (),
    letters: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
    max_replays: int = DEFAULT_MAX_REPLAYS,
    action_id: str = "",
    settings: Settings | None = None,
) -> ActionReport:
    """Send open dead letters back to the topics they came from, each exactly once. The next drain processes them.

    Without filters, all dead letters of the graphs are replayed. Filters that are given must all hold.

    :param topics: dead-letter topics to look in; all of the graphs' unless given.
    :param nodes: patterns of the nodes they failed at, such as ``parse-*``.
    :param errors: patterns of the errors' names, such as ``Module*``.
    :param letters: ids as ``TOPIC/PARTITION/OFFSET``.
    :param since: failed at this time or later; the time needs a zone.
    :param limit: most letters to replay, the oldest first.
    :param max_replays: letters that were replayed this often are quarantined instead.
    :param action_id: names the action; repeated under its id it resumes. Generated unless given.
    :raises RequestInvalid: the graphs have no dead-letter topics, and none is named.
    """
    settings = settings or load_settings()
    read = [read_graph(graph) for graph in graphs]
    places = tuple(topics) or tuple(dead_letter_topics(read, settings))
    if not places:
        raise RequestInvalid("the graphs have no dead-letter topics; pass a graph that has, or name topics")
    selection = Selection(
        nodes=tuple(nodes),
        errors=tuple(errors),
        doc_ids=tuple(doc_ids),
        letters=tuple(LetterId.parse(letter) for letter in letters),
        since=_utc("since", since),
        until=_utc("until", until),
    )
    request = ActionRequest(
        act=Act.REPLAY,
        action_id=action_id or new_run_id("replay"),
        topics=places,
        selection=selection,
        limit=limit,
        by=user_name(),
        max_replays=max_replays,
    )
    return run_action(request, settings, read)


def open_ledger(settings: Settings | None = None) -> Ledger:
    """Return the ledger: which ranges were drained, by which run, and what became of their documents."""
    return Ledger(settings or load_settings())


def _utc(name: str, moment: datetime | None) -> datetime | None:
    try:
        return None if moment is None else to_utc(moment)
    except ValueError as error:
        raise RequestInvalid(f"{name}: {error}") from None

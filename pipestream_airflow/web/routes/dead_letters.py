"""Dead letters of a pipeline: groups, browse, one with its document, replay, quarantine, release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from airflow.api_fastapi.core_api.security import GetUserDep
from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import Field

from pipestream.dead_letters import (
    OPEN_STATES,
    Act,
    ActionRequest,
    LetterId,
    LetterMissing,
    Selection,
    State,
    dead_letter_topics,
    describe,
    find_dead_letter,
    preview_action,
    run_action,
)
from pipestream.dead_letters.approval import check_replay, needs_approval
from pipestream.dead_letters.decisions import DEFAULT_MAX_REPLAYS
from pipestream.dead_letters.log import DecisionLog
from pipestream.errors import RequestInvalid
from pipestream.graph.model import Graph
from pipestream.ids import approval_dag_id, new_run_id
from pipestream.views.documents import StoredDocument
from pipestream.views.letters import GraphLetters, LetterGroups, LetterPage, letter_values
from pipestream_airflow.web.access import READS, PipelineId, is_allowed, writes
from pipestream_airflow.web.questions import find_letter_document
from pipestream_airflow.web.services import Services, ServicesDep

router = APIRouter(tags=["dead letters"])

_MOST_LETTERS = 1_000
_TEXT = Annotated[str, Field(max_length=300)]

LetterState = Literal["waiting", "open", "released", "replayed", "quarantined", "purged", "all"]


def read_selection(
    node: Annotated[list[str] | None, Query(description="Patterns of nodes, such as parse-*.")] = None,
    error: Annotated[list[str] | None, Query(description="Patterns of errors' names, such as Module*.")] = None,
    doc_id: Annotated[list[str] | None, Query()] = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Selection:
    """Return which letters a request asks for.

    :raises RequestInvalid: a time has no zone.
    """
    return _selection(node or (), error or (), doc_id or (), (), since, until)


SelectionDep = Annotated[Selection, Depends(read_selection)]
StateQuery = Annotated[LetterState, Query(description="waiting: nothing was decided yet, or they were released.")]


@dataclass(frozen=True, slots=True)
class LetterDetail:
    """One dead letter: why it failed, and the document that did."""

    letter: dict[str, Any]
    headers: list[list[str | None]]
    stream: dict[str, Any] | None
    """The stream of the record, without the document's text and blobs."""
    document: StoredDocument | None
    """The document as it came to the node; None where there is none."""
    note: str
    """Why there is no document."""


@dataclass(frozen=True, slots=True)
class LetterAction:
    """What to do with which letters. Filters that are given must all hold; without any, it is for all that wait."""

    act: Literal["replay", "quarantine", "release"]
    dry_run: bool = True
    letters: list[_TEXT] = field(default_factory=list)
    nodes: list[_TEXT] = field(default_factory=list)
    errors: list[_TEXT] = field(default_factory=list)
    doc_ids: list[_TEXT] = field(default_factory=list)
    fingerprints: list[_TEXT] = field(default_factory=list)
    since: datetime | None = None
    until: datetime | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_replays: Annotated[int, Field(ge=0, le=1_000)] = DEFAULT_MAX_REPLAYS
    action_id: _TEXT | None = None
    """Names the action; repeated under its id it resumes. Generated unless given."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action did, or in a dry run would do."""

    dry_run: bool
    act: str
    action_id: str
    status: str
    """``done``, ``done before``, or ``dry run``."""
    decided: dict[str, int]
    sent: dict[str, int]
    """Records sent, by topic."""
    left_open: dict[str, int]
    """Letters that could not be sent back, by reason."""
    by_error: dict[str, int]
    by_node: dict[str, int]
    approval_dag: str = ""
    """Of a dry run that is too large to be done here: the DAG that asks for approval first."""


@dataclass(frozen=True, slots=True)
class PastAction:
    """An action that was planned, and how far it is."""

    action_id: str
    act: str
    planned_at: datetime
    by: str
    finished: bool
    decided: dict[str, int]
    topics: list[str]


@router.get("/pipelines/{pipeline_id}/dead-letters/groups", dependencies=READS)
async def list_groups(
    pipeline_id: PipelineId, services: ServicesDep, selection: SelectionDep, state: StateQuery = "waiting"
) -> LetterGroups:
    """Group dead letters by the reason why they failed."""
    graph = await services.find_active(pipeline_id)
    letters = GraphLetters(graph, services.settings)
    return await services.kafka.ask(
        ("groups", pipeline_id, selection, state), lambda: letters.groups(selection, _states(state)), keep_s=1.0
    )


@router.get("/pipelines/{pipeline_id}/dead-letters", dependencies=READS)
async def list_letters(
    pipeline_id: PipelineId,
    services: ServicesDep,
    selection: SelectionDep,
    state: StateQuery = "waiting",
    fingerprint: Annotated[str, Query(max_length=64)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> LetterPage:
    """List dead letters, the newest failure first."""
    graph = await services.find_active(pipeline_id)
    letters = GraphLetters(graph, services.settings)
    return await services.kafka.ask(
        ("letters", pipeline_id, selection, state, fingerprint, limit, offset),
        lambda: letters.page(selection, _states(state), reason=fingerprint, limit=limit, offset=offset),
        keep_s=1.0,
    )


@router.get("/pipelines/{pipeline_id}/dead-letters/actions", dependencies=READS)
async def list_actions(
    pipeline_id: PipelineId, services: ServicesDep, limit: Annotated[int, Query(ge=1, le=500)] = 50
) -> list[PastAction]:
    """List what was done with the pipeline's dead letters, newest first."""
    graph = await services.find_active(pipeline_id)
    own = set(dead_letter_topics([graph], services.settings))

    def look() -> list[PastAction]:
        decisions = DecisionLog(services.settings).read()
        plans = sorted(decisions.plans.values(), key=lambda plan: plan.planned_at, reverse=True)
        return [
            PastAction(
                action_id=plan.action_id,
                act=plan.act.value,
                planned_at=plan.planned_at,
                by=plan.by,
                finished=not decisions.remaining(plan),
                decided={state.value: count for state, count in decisions.decided_by(plan.action_id).items()},
                topics=sorted(own & set(plan.topics)),
            )
            for plan in plans
            if own & set(plan.topics)
        ][:limit]

    return await services.kafka.ask(("actions", pipeline_id, limit), look, keep_s=1.0)


@router.get("/pipelines/{pipeline_id}/dead-letters/{topic}/{partition}/{offset}", dependencies=READS)
async def show_letter(
    pipeline_id: PipelineId,
    topic: Annotated[str, Path(max_length=249)],
    partition: Annotated[int, Path(ge=0, le=2**31 - 1)],
    offset: Annotated[int, Path(ge=0, le=2**63 - 1)],
    services: ServicesDep,
) -> LetterDetail:
    """Show one dead letter, with the document that failed."""
    graph = await services.find_active(pipeline_id)
    letter_id = LetterId(topic, partition, offset)
    if topic not in dead_letter_topics([graph], services.settings):
        raise RequestInvalid(f"{topic!r} is not a dead-letter topic of graph {pipeline_id}")
    letter = await services.kafka.ask(("letter", letter_id), lambda: find_dead_letter(services.settings, letter_id))
    if letter.graph_id not in ("", pipeline_id):
        raise LetterMissing(letter_id, 0, 0)
    everything = describe(letter)
    document, note = await find_letter_document(services, graph, letter)
    return LetterDetail(letter_values(letter), everything["headers"], everything["stream"], document, note)


@router.post("/pipelines/{pipeline_id}/dead-letters/actions", dependencies=writes("pipestream_dead_letters"))
async def act(pipeline_id: PipelineId, wanted: LetterAction, services: ServicesDep, user: GetUserDep) -> ActionResult:
    """Replay, quarantine or release dead letters; or, with ``dry_run``, say what that would do.

    A replay of more letters than the setting ``approval_letters`` allows is refused with 409: it needs an approval, in
    the DAG that the answer of the dry run names.
    """
    graph = await services.find_active(pipeline_id)
    graphs = [each.built.graph for each in (await services.database.ask("active", services.pipelines.active)).values()]
    topics = tuple(dead_letter_topics([graph], services.settings))
    sharing = _sharing(graphs, topics, services)
    if not await run_sync(is_allowed, "PUT", user, sharing):
        raise HTTPException(403, f"these dead letters are of the pipelines {', '.join(sharing)}; you may not edit them")
    request = await _request(wanted, graph, topics, services, user.get_name())
    if wanted.dry_run:
        return await services.kafka.ask(("dry run", request), lambda: _preview(request, services, graphs, pipeline_id))
    return await services.actions.ask(("act", request), lambda: _run(request, services, graphs, pipeline_id))


async def _request(
    wanted: LetterAction, graph: Graph, topics: tuple[str, ...], services: Services, by: str
) -> ActionRequest:
    act = Act(wanted.act)
    if (
        max(map(len, (wanted.letters, wanted.nodes, wanted.errors, wanted.doc_ids, wanted.fingerprints)))
        > _MOST_LETTERS
    ):
        raise RequestInvalid(f"name at most {_MOST_LETTERS} letters, documents or patterns; use filters for more")
    letters = [LetterId.parse(each) for each in wanted.letters]
    if foreign := [each for each in letters if each.topic not in topics]:
        raise RequestInvalid(f"{foreign[0]} is not a dead letter of graph {graph.graph_id}")
    selection = _selection(wanted.nodes, wanted.errors, wanted.doc_ids, letters, wanted.since, wanted.until)
    if wanted.fingerprints:
        # An action's plan has no fingerprints, so they become the letters that have them now.
        reader = GraphLetters(graph, services.settings)
        letters = await services.kafka.ask(
            ("fingerprints", graph.graph_id, selection, act, *wanted.fingerprints),
            lambda: reader.ids(selection, act.applies_to, wanted.fingerprints),
        )
        if not letters:
            raise RequestInvalid("no dead letter has one of these fingerprints")
        letters = letters[: wanted.limit]
        if len(letters) > _MOST_LETTERS:
            raise RequestInvalid(
                f"{len(letters)} dead letters have these fingerprints; set limit to {_MOST_LETTERS} or less and repeat "
                f"it, or filter by node and error instead"
            )
        selection = _selection((), (), (), letters, None, None)
    places = tuple(topic for topic in topics if not letters or topic in {each.topic for each in letters})
    action_id = wanted.action_id or new_run_id(wanted.act)
    return ActionRequest(act, action_id, places, selection, wanted.limit, wanted.max_replays, by)


def _preview(request: ActionRequest, services: Services, graphs: Sequence[Graph], pipeline_id: str) -> ActionResult:
    found = preview_action(request, services.settings, graphs)
    return ActionResult(
        dry_run=True,
        act=request.act.value,
        action_id="",
        status="dry run",
        decided={state.value: count for state, count in found.decided.items()},
        sent=dict(found.sent),
        left_open=dict(found.left_open),
        by_error=dict(found.histogram.by_error),
        by_node=dict(found.histogram.by_node),
        approval_dag=approval_dag_id(pipeline_id) if needs_approval(request.act, found, services.settings) else "",
    )


def _run(request: ActionRequest, services: Services, graphs: Sequence[Graph], pipeline_id: str) -> ActionResult:
    check_replay(request, services.full_settings, graphs, pipeline_id)
    report = run_action(request, services.full_settings, graphs)
    return ActionResult(
        dry_run=False,
        act=request.act.value,
        action_id=report.action_id,
        status=report.status,
        decided={state.value: count for state, count in report.decided.items()},
        sent=dict(report.sent),
        left_open=dict(report.left_open),
        by_error={},
        by_node={},
    )


def _sharing(graphs: Sequence[Graph], topics: tuple[str, ...], services: Services) -> list[str]:
    """Return the graphs whose dead letters are in some of these topics: two may share a datasource."""
    own = set(topics)
    return [each.graph_id for each in graphs if own & set(dead_letter_topics([each], services.settings))]


def _selection(
    nodes: Sequence[str],
    errors: Sequence[str],
    doc_ids: Sequence[str],
    letters: Sequence[LetterId],
    since: datetime | None,
    until: datetime | None,
) -> Selection:
    try:
        return Selection(tuple(nodes), tuple(errors), tuple(doc_ids), tuple(letters), since, until)
    except ValueError as error:
        raise RequestInvalid(str(error)) from None


def _states(state: LetterState) -> frozenset[State]:
    if state == "waiting":
        return OPEN_STATES
    return frozenset(State) if state == "all" else frozenset({State(state)})

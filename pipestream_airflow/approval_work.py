"""The two halves of an approved action: find out what it would do, and do exactly that.

Between the two, a person reads what was found. So what is done later is bound to it: letters that failed after the dry
run are left alone, no more letters are acted on than were shown, and heads are moved only if they are still where they
were. What the first half found travels to the second as plain values, in an XCom.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import astuple, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pipestream.dead_letters import (
    Act,
    ActionRequest,
    Preview,
    Selection,
    dead_letter_topics,
    preview_action,
    run_action,
)
from pipestream.drain.rebaseline import PlannedMove, PlannedMoves, preview_rebaseline, rebaseline
from pipestream.errors import RequestInvalid
from pipestream.leases import open_lease_store
from pipestream.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings
    from pipestream_airflow.approval_form import ApprovalParams


def find_work(
    params: ApprovalParams, graph: Graph, settings: Settings, *, now: datetime, run_name: str
) -> dict[str, Any]:
    """Return what a run would do: its size, a request for approval to be shown, and all that :func:`do_work` needs.

    :param run_name: with ``now``, names the action on dead letters, so that a retry resumes it.
    :raises TerminalError: it cannot be done, for this reason.
    """
    if params.action == "rebaseline":
        return _find_moves(params, graph, settings)
    selection = params.selection
    until = min(selection.until, now) if selection.until else now
    topics = tuple(dead_letter_topics([graph], settings))
    if not topics:
        raise RequestInvalid(f"graph {graph.graph_id} has no dead letters")
    work = {
        "action": params.action,
        # An id of an action is part of an object's key, and Airflow's run ids have other characters. With the time: a
        # run that is cleared asks again, for another action.
        "action_id": f"approved-{sha256(f'{run_name}/{now.isoformat()}'.encode()).hexdigest()[:20]}",
        "topics": list(topics),
        # Another graph may share a datasource, and its letters are not this graph's to decide about.
        "selection": replace(selection, until=until, graphs=(graph.graph_id,)).to_values(),
        "limit": params.limit,
    }
    preview = preview_action(_request(work, by=""), settings, [graph])
    count = preview.decided.total()
    subject = f"{params.action.capitalize()} {counted(count, 'dead letter')} of {graph.graph_id}?"
    body = [*_describe_letters(preview), "", f"Letters that fail after {until:%Y-%m-%d %H:%M:%S} UTC are left alone."]
    return work | {"limit": count or None, "count": count, "subject": subject, "body": "\n".join(body)}


def do_work(work: Mapping[str, Any], graph: Graph, settings: Settings, *, by: str) -> dict[str, Any]:
    """Do what was found and approved. A repeat resumes it, and does nothing twice.

    :param work: what :func:`find_work` returned.
    :param by: who decided it; it is recorded with what is done.
    :raises HeadsMoved: a topic was drained since, so the approval was for something else.
    """
    if work["action"] == "rebaseline":
        expected = PlannedMoves(work["topic_id"], tuple(PlannedMove(*each) for each in work["moves"]))
        to = {move.partition: move.end for move in expected.moves if move.is_there}
        with closing(open_lease_store(settings)) as leases:
            entries = rebaseline(settings, graph, work["topic"], to, by=by, leases=leases, expected=expected)
        return {
            "moved": [f"{each.range.topic}[{each.range.partition}]: to {each.range.end}" for each in entries],
            "by": by,
        }
    report = run_action(_request(work, by=by), settings, [graph])
    return {
        "action_id": report.action_id,
        "decided": {state.value: count for state, count in report.decided.items()},
        "sent": dict(report.sent),
        "left_open": dict(report.left_open),
        "by": by,
    }


def _find_moves(params: ApprovalParams, graph: Graph, settings: Settings) -> dict[str, Any]:
    found = preview_rebaseline(settings, graph, params.topic, params.target)
    rows = [f"| {move.partition} | {move.start} | {move.end} | {_effect(found, move)} |" for move in found.moves]
    count = len(found.changed)
    return {
        "action": params.action,
        "topic": params.topic,
        "topic_id": found.topic_id,
        "moves": [list(astuple(move)) for move in found.moves],
        "count": count,
        "subject": f"Move {counted(count, 'head')} of {params.topic} in {graph.graph_id}?",
        "body": "\n".join(["| partition | head | new head | effect |", "| --- | --- | --- | --- |", *rows]),
    }


def _effect(found: PlannedMoves, move: PlannedMove) -> str:
    if not found.is_new_topic:
        return move.describe()
    # Offsets of two topics are not compared: nothing is given up or drained again by their difference.
    return f"begins at {move.end} of the new topic" if move.is_there else "is forgotten: the new topic does not have it"


def _request(work: Mapping[str, Any], *, by: str) -> ActionRequest:
    return ActionRequest(
        act=Act(work["action"]),
        action_id=work["action_id"],
        topics=tuple(work["topics"]),
        selection=Selection.from_values(work["selection"]),
        limit=work["limit"],
        by=by,
    )


def _describe_letters(preview: Preview) -> list[str]:
    counted = {
        "what becomes of them": {state.value: count for state, count in preview.decided.items()},
        "error": preview.histogram.by_error,
        "node": preview.histogram.by_node,
        "sent to": preview.sent,
        "stays, because": preview.left_open,
    }
    lines = ["| | | dead letters |", "| --- | --- | --- |"]
    for what, counts in counted.items():
        lines += [f"| {what} | {_cell(name)} | {count} |" for name, count in sorted(counts.items())]
    return lines


def _cell(text: str) -> str:
    """Return text as code in a Markdown table. Names of errors come from dead letters, which may hold anything."""
    return "`" + " ".join(text.replace("`", "'").replace("|", "/").split())[:200] + "`"

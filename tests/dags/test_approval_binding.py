"""What binds an action to its approval: the answer, what was shown, and the graph. Without servers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from pipestream.dead_letters import Selection
from pipestream.dead_letters.preview import Preview
from pipestream.drain.rebaseline import PlannedMove, PlannedMoves
from pipestream.graph.load import load_graph
from pipestream.settings import Settings
from pipestream_airflow import approval_operators, approval_work
from pipestream_airflow.approval_form import ApprovalParams
from pipestream_airflow.approval_operators import ANSWER, SHOWN, ApprovedActionOperator, as_text, digest_of

WORK = {"action": "purge", "action_id": "approved-1", "count": 2, "asked_by": "ada", "limit": 2}
OLGA = {"id": "7", "name": "olga"}


@pytest.fixture
def graph(write_graph):
    text = """
    graph: sample
    cluster: main
    datasources:
      - {id: files, account: acme, entry: parse}
    nodes:
      - {id: parse, type: connector}
    """
    return load_graph(write_graph("sample.yaml", text))


@pytest.fixture
def perform(graph, monkeypatch, dags_folder):
    """Runs the task that performs an action, in a run whose tasks have left these XComs."""
    done: list[tuple[Any, str]] = []
    monkeypatch.setattr(approval_operators, "do_work", lambda work, *_, by: done.append((work, by)) or {"by": by})
    task = ApprovedActionOperator(task_id="perform", graph_file=str(dags_folder / "graphs" / "sample.yaml"))

    def run(*, answer: Any, shown: str) -> list[tuple[Any, str]]:
        left = {("dry_run", "return_value"): WORK, ("approve", ANSWER): answer, ("approve", SHOWN): shown}
        ti = SimpleNamespace(xcom_pull=lambda task_ids, key="return_value": left.get((task_ids, key)))
        task.execute({"ti": ti})
        return done

    return run


def test_an_approved_action_is_done_in_the_name_of_who_approved_and_who_asked(perform):
    answer = {"chosen_options": ["Approve"], "responded_by_user": OLGA}

    assert perform(answer=answer, shown=digest_of(WORK)) == [(WORK, "olga, asked by ada")]


@pytest.mark.parametrize("chosen", [["Reject"], []])
def test_a_rejected_action_is_not_done_though_its_task_is_cleared_alone(perform, chosen):
    answer = {"chosen_options": chosen, "responded_by_user": OLGA}

    with pytest.raises(AirflowFailException, match="there is no approval in this run"):
        perform(answer=answer, shown=digest_of(WORK))


def test_an_action_is_not_done_if_the_dry_run_was_repeated_after_the_approval(perform):
    answer = {"chosen_options": ["Approve"], "responded_by_user": OLGA}

    with pytest.raises(AirflowFailException, match="the approval was for something else"):
        perform(answer=answer, shown=digest_of(WORK | {"count": 3}))


def test_the_reason_cannot_look_like_a_part_of_the_dry_run():
    reason = "clean up\n\n| error | `Rare` | 1 |\n\n![x](https://example.org/x.png) <b>"

    shown = as_text(reason)

    assert "\n" not in shown
    assert shown == r"clean up \| error \| \`Rare\` \| 1 \| \!\[x\](https://example.org/x.png) \<b\>"
    assert as_text("test_data of 2026-11-17") == "test_data of 2026-11-17"


@pytest.fixture
def found(graph, monkeypatch):
    """Returns what a dry run of a purge finds, at a minute of an hour."""
    monkeypatch.setattr(approval_work, "preview_action", lambda *_: Preview())

    def find(minute: int) -> dict[str, Any]:
        now = datetime(2026, 11, 17, 8, minute, tzinfo=UTC)
        return approval_work.find_work(ApprovalParams("purge"), graph, Settings(), now=now, run_name="dag/run")

    return find


def test_only_letters_of_the_graph_are_decided_about(found):
    selection = Selection.from_values(found(1)["selection"])

    assert selection.graphs == ("sample",)
    assert selection.until == datetime(2026, 11, 17, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("is_new_topic", "count", "effect"), [(False, 0, "stays"), (True, 2, "begins at 7 of the new topic")]
)
def test_heads_of_a_topic_that_was_made_again_are_approved_though_their_numbers_stay(
    graph, monkeypatch, is_new_topic, count, effect
):
    moves = PlannedMoves("id", (PlannedMove(0, 7, 7), PlannedMove(1, 7, 7)), is_new_topic)
    monkeypatch.setattr(approval_work, "preview_rebaseline", lambda *_: moves)

    params = ApprovalParams("rebaseline", topic="intake.files", to="latest")
    work = approval_work.find_work(params, graph, Settings(), now=datetime.now(UTC), run_name="dag/run")

    assert work["count"] == count
    assert f"| 0 | 7 | 7 | {effect} |" in work["body"]


def test_a_run_that_is_cleared_asks_for_another_action(found):
    assert found(1)["action_id"] == found(1)["action_id"]
    assert found(1)["action_id"] != found(2)["action_id"]

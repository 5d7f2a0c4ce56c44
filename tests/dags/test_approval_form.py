"""What the fields of an approval's form say together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk.definitions.param import ParamsDict

from pipestream.errors import RequestInvalid
from pipestream_airflow.approval_form import ACTIONS, ApprovalParams, approval_form

TOPICS = ["intake.a", "pipestream.main.parse"]


def read(**values: object) -> ApprovalParams:
    return ApprovalParams.read({name: param.value for name, param in approval_form(TOPICS).items()} | values)


@pytest.mark.parametrize("action", ["purge", "replay"])
def test_filters_select_dead_letters(action):
    found = read(action=action, nodes=["b", "a"], since="2026-03-01", limit=5, reason=" why ")

    assert (found.action, found.reason, found.limit) == (action, "why", 5)
    assert found.selection.nodes == ("a", "b")
    assert found.selection.since == datetime(2026, 3, 1, tzinfo=UTC)


def test_heads_move_to_a_place_or_to_offsets():
    assert read(action="rebaseline", topic="intake.a", to="latest").target == "latest"
    assert read(action="rebaseline", topic="intake.a", offsets=["1:7", "0:5"]).target == {0: 5, 1: 7}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"action": "rebaseline"}, "needs a topic"),
        ({"action": "rebaseline", "topic": "intake.a"}, "either to, such as latest, or offsets"),
        ({"action": "rebaseline", "topic": "intake.a", "to": "latest", "offsets": ["0:1"]}, "fill in one"),
        ({"action": "rebaseline", "topic": "intake.a", "offsets": ["0:1", "0:2"]}, "names a partition twice"),
        (
            {"action": "rebaseline", "topic": "intake.a", "to": "latest", "nodes": ["x"]},
            "rebaseline does not use nodes",
        ),
        ({"action": "purge", "to": "latest"}, "purge does not use to:"),
        ({"action": "purge", "since": "2026-03-02", "until": "2026-03-01"}, "exchange them"),
        ({"action": "purge", "since": "2026-13-01"}, "since is not a time"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_change(values, reason):
    with pytest.raises(RequestInvalid, match=reason):
        read(**values)


def test_airflow_accepts_the_form_as_it_is_and_refuses_an_action_that_is_not_on_it():
    form = ParamsDict(approval_form(TOPICS))

    form.validate()
    assert form.get_param("action").schema["enum"] == sorted(ACTIONS)
    with pytest.raises(ValueError, match="delete"):
        form["action"] = "delete"

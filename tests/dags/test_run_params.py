"""What the fields of a run's form say together, and when Airflow retries a task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException

from pipestream.errors import BrokerUnavailable, LeaseUnavailable, RequestInvalid, TopicMissing
from pipestream_airflow.retry_policy import ErrorTreePolicy
from pipestream_airflow.run_form import form
from pipestream_airflow.run_params import MODES, RunParams

TOPICS = ["intake.a", "intake.b", "pipestream.main.parse"]
ASKED_AT = datetime(2026, 11, 16, 8, tzinfo=UTC)


def read(**values: object) -> RunParams:
    return RunParams.read({name: param.value for name, param in form(TOPICS, 100).items()} | values)


def backfill(**values: object):
    return read(**values).backfill("manual", (None, None), ASKED_AT)


def test_the_form_as_it_is_catches_up():
    assert read().mode == "catch_up"
    assert backfill() is None


def test_a_range_of_offsets_is_drained_again_under_a_name_of_its_own():
    found = backfill(mode="offset_range", offsets=["1:5-9", "0:1-2"], topics=["intake.a"])

    assert found.offsets == {0: (1, 2), 1: (5, 9)}
    again = backfill(mode="offset_range", offsets=["0:1-2", "1:5-9"], topics=["intake.a"])
    assert again.backfill_id == found.backfill_id
    assert backfill(mode="offset_range", offsets=["0:1-3"], topics=["intake.a"]).backfill_id != found.backfill_id


def test_documents_are_drained_again_in_a_time_range_or_from_all_that_is_there():
    found = backfill(mode="documents", doc_ids=["b", "a"])

    assert (found.doc_ids, found.since, found.until) == (("a", "b"), None, ASKED_AT)
    assert backfill(mode="documents", doc_ids=["a"], since="2026-03-01").since == datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "what_to_change"),
    [
        ({"mode": "time_range"}, "needs since, until or both"),
        ({"mode": "time_range", "since": "2026-02-30"}, "write e.g. 2026-03-01T00:00:00Z"),
        ({"mode": "time_range", "since": "2026-03-02", "until": "2026-03-01"}, "exchange them"),
        ({"since": "2026-03-01"}, "empty it, or choose the mode time_range or documents or dead_letters"),
        ({"mode": "time_range", "since": "2026-03-01", "doc_ids": ["a"]}, "choose the mode documents or dead_letters"),
        ({"mode": "documents"}, "enter one id a line"),
        ({"mode": "offset_range", "topics": ["intake.a"]}, "needs offsets, such as 0:100-200"),
        ({"mode": "offset_range", "offsets": ["0:1-2"]}, "leave one of them in topics"),
        (
            {"mode": "offset_range", "offsets": ["0:1-2", "0:4-5"], "topics": ["intake.a"]},
            "second range of partition 0",
        ),
        ({"errors": ["Module*"]}, "choose the mode dead_letters"),
        ({"graph_version": "then"}, "choose now, or the mode time_range"),
    ],
)
def test_fields_that_contradict_each_other_are_refused_with_what_to_change(values, what_to_change):
    with pytest.raises(RequestInvalid, match=what_to_change):
        read(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "documents", "doc_ids": ["a"]},
        {"mode": "offset_range", "offsets": ["0:1-2"], "topics": ["intake.a"]},
        {"mode": "time_range", "since": "2026-03-01"},
        {"mode": "dead_letters"},
    ],
)
def test_a_backfill_of_airflow_refuses_a_mode_that_it_would_ignore(values):
    params = {name: param.value for name, param in form(TOPICS, 100).items()} | values

    with pytest.raises(RequestInvalid, match="create the backfill without a mode"):
        RunParams.read(params, "backfill")


def test_a_backfill_of_airflow_can_use_the_graph_of_then():
    params = {name: param.value for name, param in form(TOPICS, 100).items()} | {"graph_version": "then"}

    assert RunParams.read(params, "backfill").graph_version == "then"


def test_every_mode_has_its_meaning_in_the_form():
    mode = form(TOPICS, 1)["mode"]

    # In this order: "the same" in a meaning is about the mode before.
    assert mode.schema["enum"] == list(MODES)
    assert [line.split("**")[1] for line in mode.schema["description_md"].splitlines()] == list(MODES)


def test_lists_may_be_left_empty():
    lists = ("offsets", "doc_ids", "nodes", "errors")

    assert all("null" in form(TOPICS, 1)[name].schema["type"] for name in lists)
    assert read(**dict.fromkeys(lists)) == read()


def caused_by(error: Exception) -> AirflowException:
    raised = AirflowException("the task failed")
    raised.__cause__ = error
    return raised


@pytest.mark.parametrize(
    ("raised", "action", "delay"),
    [
        (TopicMissing("intake.a"), RetryAction.FAIL, None),
        (BrokerUnavailable("no answer"), RetryAction.RETRY, None),
        (LeaseUnavailable("intake.a", 0, "another run"), RetryAction.RETRY, timedelta(seconds=10)),
        (caused_by(TopicMissing("intake.a")), RetryAction.FAIL, None),
        (ValueError("a bug"), RetryAction.DEFAULT, None),
    ],
    ids=["terminal", "server down", "overtaken", "as a cause", "not ours"],
)
def test_airflow_retries_as_the_tree_of_errors_says(raised, action, delay):
    decision = ErrorTreePolicy().evaluate(raised, try_number=1, max_tries=2)

    assert (decision.action, decision.retry_delay) == (action, delay)
    assert bool(decision.reason) == (action is not RetryAction.DEFAULT)

"""The task that tells Airflow of complete hours: what it says, what it remembers, and when it says nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from pipestream.graph.load import load_graph
from pipestream.settings import Settings
from pipestream.views.hours import CompleteHours, LastHour
from pipestream_airflow.assets import complete_hours_asset
from pipestream_airflow.graph_dag import build_graph_dag
from pipestream_airflow.hours_operator import CompleteHoursOperator, read_last

NINE, TEN = datetime(2026, 11, 17, 9, tzinfo=UTC), datetime(2026, 11, 17, 10, tzinfo=UTC)
GRAPH = """
graph: hours
cluster: main
datasources:
  - {id: files, account: acme, entry: parse, complete_hours: true}
  - {id: mails, account: acme, entry: parse}
nodes:
  - {id: parse, type: connector}
"""


class Events(list[Any]):
    """The events of an asset, newest first, as Airflow offers them."""

    def ascending(self, ascending: bool) -> Events:
        assert not ascending
        return self

    def limit(self, limit: int) -> Events:
        return Events(self[:limit])


def event(key: str | None, extra: dict[str, Any] | None) -> SimpleNamespace:
    return SimpleNamespace(partition_key=key, extra=extra)


@pytest.fixture
def graph_file(tmp_path):
    file = tmp_path / "hours.yaml"
    file.write_text(GRAPH)
    return file


@pytest.fixture
def task(graph_file):
    asset = complete_hours_asset("hours", "files")
    return CompleteHoursOperator(
        task_id="complete_hours", graph_file=str(graph_file), datasource_ids=["files"], inlets=[asset], outlets=[asset]
    )


@pytest.fixture
def run(task, monkeypatch):
    """Runs the task while some hours are complete; returns what was asked, and the event that Airflow will record."""

    def run(found: CompleteHours, *events: Any) -> tuple[LastHour | None, Any, dict[str, list[str]]]:
        asked: list[LastHour | None] = []

        def find(_settings, _graph, _source, last, _now):
            asked.append(last)
            return found

        monkeypatch.setattr("pipestream_airflow.hours_operator.find_complete_hours", find)
        asset = complete_hours_asset("hours", "files")
        outlets = OutletEventAccessors()
        told = task.execute({"inlet_events": {asset: Events(events)}, "outlet_events": outlets})
        return asked[0], outlets[asset], told

    return run


def test_it_updates_the_asset_with_a_partition_for_each_hour(run, task):
    last, said, told = run(CompleteHours((NINE, TEN), {0: 7, 1: 9}, {}, ""))

    assert last is None
    assert said.partition_keys == {"2026-11-17T08:00:00", "2026-11-17T09:00:00"}
    assert said.extra == {"until": "2026-11-17T10:00:00", "offsets": {"0": 7, "1": 9}, "late": {}}
    assert told == {"files": ["2026-11-17T08:00:00", "2026-11-17T09:00:00"]}
    assert task.outlets == [complete_hours_asset("hours", "files")]


def test_it_continues_behind_the_hours_that_airflow_has_recorded(run):
    _, said, _ = run(CompleteHours((NINE, TEN), {0: 7}, {}, ""))
    recorded = [event(key, said.extra) for key in said.partition_keys]

    last, _, _ = run(CompleteHours((), {}, {}, ""), *recorded)

    assert last == LastHour(TEN, {0: 7})


def test_without_a_complete_hour_the_asset_is_not_updated(run, task):
    _, said, told = run(CompleteHours((), {}, {}, "intake.files[0] is drained to 1 of 2"))

    assert (said.partition_keys, told, task.outlets) == (set(), {"files": []}, [])


def test_events_that_somebody_created_by_hand_do_not_count():
    assert (
        read_last([event(None, {"until": "2026-11-17T10:00:00"}), event("x", None), event("y", {"by": "me"})]) is None
    )


def test_only_a_graph_with_a_datasource_that_wants_it_has_the_task(graph_file):

    with_hours = build_graph_dag(load_graph(graph_file), graph_file, Settings())
    graph_file.write_text(GRAPH.replace(", complete_hours: true", ""))
    without = build_graph_dag(load_graph(graph_file), graph_file, Settings())

    assert with_hours.task_dict["complete_hours"].outlets == [complete_hours_asset("hours", "files")]
    assert with_hours.task_dict["complete_hours"].is_teardown
    assert "complete_hours" not in without.task_dict

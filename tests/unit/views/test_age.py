"""How old the documents of a graph will get, from what waits and from the ledger's pace."""

from __future__ import annotations

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pipestream.arrow import to_table
from pipestream.graph.load import check_graph_text
from pipestream.ledger.tables import ENTRIES_SCHEMA
from pipestream.settings import Settings
from pipestream.views.age import PACE_COLUMNS, find_paces, forecast_age
from pipestream.views.exporter import StandingCollector
from pipestream.views.standing import Standing, StandingView, TopicStanding

TEXT = """
graph: g
cluster: main
age_target_seconds: 100
datasources:
  - {id: one, account: acme, entry: first}
nodes:
  - {id: first, module: "python:a.b:c"}
  - {id: second, module: "python:a.b:c"}
  - {id: third, module: "python:a.b:c"}
edges:
  - {from: first, to: second}
  - {from: second, to: third}
"""
GRAPH = check_graph_text(TEXT.encode(), "g").require()
INTAKE, SECOND, THIRD = "intake.one", "pipestream.main.second", "pipestream.main.third"


def standing(topic: str, lag: int, age_s: float, *, started: bool = True) -> TopicStanding:
    return TopicStanding("g", topic, lag, 0, age_s, is_started=started, is_streaming=False, held_slots=0, replicas=1)


def test_nothing_is_at_risk_while_nothing_waits():
    found = forecast_age(GRAPH, [standing(INTAKE, 0, 0)], {INTAKE: 5.0})

    assert (found.topic, found.expected_s, found.is_at_risk) == ("", 0, False)


def test_what_waits_is_drained_from_every_topic_up_to_the_end():
    found = forecast_age(GRAPH, [standing(INTAKE, 10, 30)], {INTAKE: 1.0, SECOND: 2.0, THIRD: 3.0})

    assert (found.topic, found.age_s, found.drain_s) == (INTAKE, 30, 60)
    assert not found.is_at_risk


def test_what_waits_on_the_way_is_drained_first():
    waits = [standing(INTAKE, 10, 30), standing(THIRD, 4, 5)]

    found = forecast_age(GRAPH, waits, {INTAKE: 1.0, SECOND: 2.0, THIRD: 3.0})

    assert (found.topic, found.expected_s, found.is_at_risk) == (INTAKE, 30 + 10 + 20 + 42, True)
    assert "is 30 s old and needs about 72 s" in found.describe()


def test_an_old_record_near_the_end_counts_more_than_a_young_one_with_a_long_way():
    waits = [standing(INTAKE, 1, 1), standing(THIRD, 1, 99)]

    found = forecast_age(GRAPH, waits, {INTAKE: 1.0, SECOND: 1.0, THIRD: 0.5})

    assert (found.topic, found.expected_s) == (THIRD, 99.5)


def test_what_waits_in_a_stopped_topic_is_at_no_risk_and_the_way_of_others_ends_there():
    waits = [standing(INTAKE, 10, 30), standing(SECOND, 4, 5_000, started=False), standing(THIRD, 2, 1)]

    found = forecast_age(GRAPH, waits, {INTAKE: 1.0, SECOND: 100.0, THIRD: 3.0})

    assert (found.topic, found.age_s, found.drain_s) == (INTAKE, 30, 10)
    assert not forecast_age(GRAPH, [standing(INTAKE, 10, 5_000, started=False)], {}).is_at_risk


def test_what_waits_for_a_paused_datasource_is_at_no_risk():
    paused = check_graph_text(TEXT.replace("entry: first", "entry: first, paused: true").encode(), "g").require()

    assert not forecast_age(paused, [standing(INTAKE, 10, 5_000)], {}).is_at_risk
    assert forecast_age(paused, [standing(SECOND, 10, 5_000)], {}).is_at_risk


@pytest.mark.parametrize(("age_s", "is_at_risk"), [(99, False), (101, True)])
def test_without_a_pace_only_the_age_counts(age_s, is_at_risk):
    assert forecast_age(GRAPH, [standing(INTAKE, 1000, age_s)], {}).is_at_risk is is_at_risk


def test_the_pace_of_a_topic_is_that_of_the_ranges_that_its_live_runs_drained():
    rows = [
        ("g", INTAKE, 0, 10, 4.0),
        ("g", INTAKE, 10, 30, 2.0),
        ("g", INTAKE, 30, 1_000, 0.0),
        ("g", SECOND, 5, 9, 1.0),
        ("g@backfill", SECOND, 0, 4, 90.0),
        ("g", THIRD, 0, 50, 0.0),
    ]
    schema = pa.schema([ENTRIES_SCHEMA.field(name) for name in PACE_COLUMNS])
    entries = to_table([dict(zip(PACE_COLUMNS, row, strict=True)) for row in rows], schema)

    assert find_paces(entries, "g") == {INTAKE: 0.2, SECOND: 0.25}
    assert find_paces(to_table([], schema), "g") == {}


def test_the_exporter_shows_the_target_and_the_expected_age_of_a_graph_that_has_a_target(tmp_path):
    view = StandingView(Settings(ledger_uri=tmp_path.as_uri()), leases=None)
    standings = (standing(INTAKE, 3, 120),)
    view.find = lambda _: Standing(standings, {}, view._forecast([GRAPH], standings))
    registry = CollectorRegistry()
    registry.register(StandingCollector(view, lambda: [GRAPH]))

    shown = generate_latest(registry).decode()

    assert 'pipestream_graph_age_target_seconds{graph="g"} 100.0' in shown
    assert 'pipestream_graph_expected_age_seconds{graph="g"} 120.0' in shown

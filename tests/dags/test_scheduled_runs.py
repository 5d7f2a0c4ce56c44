"""Runs as people start them, in a whole Airflow: by its schedule, by the form, and as a backfill. The long version;
``test_end_to_end.py`` has the short one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.leases import open_lease_store
from pipestream.local import Stack
from pipestream_testing.airflow_api import AirflowApi, wait_for
from pipestream_testing.airflow_stack import airflow_stack, graph_file
from pipestream_testing.pipeline import Pipeline

pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

GRAPH = """
graph: NAME
cluster: main
SCHEDULE
datasources:
  - {id: NAME, account: acme, entry: NAME-first, partitions: 2, retention_hours: 720}
nodes:
  - {id: NAME-first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: NAME-second, module: "python:pipestream_testing.steps:pass_on", partitions: 2}
edges:
  - {from: NAME-first, to: NAME-second}
"""

# A day ends at the hour that ended half a day ago, so that no test runs over the end of an interval.
END_OF_DAY = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=12)
SCHEDULES = {"form": "", "range": "", "daily": f'schedule: "0 {END_OF_DAY.hour} * * *"'}


class Installation:
    """One graph that is applied, its DAG in Airflow, and documents of several days in its intake topic."""

    def __init__(self, name: str, stack: Stack, airflow: AirflowApi, graph_file: Path) -> None:
        self.name = name
        self.dag_id = f"pipestream_{name}"
        self.airflow = airflow
        self.pipeline = Pipeline(stack.settings(), graph_file)
        self.ledger = self.pipeline.ledger
        self.intake = f"intake.{name}"
        self.second = f"pipestream.main.{name}-second"
        with closing(open_lease_store(stack.settings())) as leases, closing(GraphVersions(stack.settings())) as kept:
            apply_graph(self.pipeline.graph, stack.settings(), leases, kept, applied_by="test")

    def day(self, days_ago: int) -> datetime:
        """Return the beginning of a day of the schedule. The last day that has ended is one day ago."""
        return END_OF_DAY - timedelta(days=days_ago)

    def send(self, days_ago: int, *doc_ids: str) -> None:
        """Put documents into both partitions, with Kafka timestamps of the middle of a day."""
        middle = self.day(days_ago) + timedelta(hours=12)
        for number, doc_id in enumerate(doc_ids):
            self.pipeline.send(self.intake, [doc_id], partition=number % 2, timestamp=middle)

    def lane(self, days_ago: int) -> str:
        """Return the lane in which a day is drained again."""
        since, until = self.day(days_ago), self.day(days_ago - 1)
        return f"{self.name}@time-{since:%Y%m%dt%H%M%S}-{until:%Y%m%dt%H%M%S}"

    def taken_in(self, lane: str) -> set[str]:
        """Return the documents of the intake ranges that a lane has entered."""
        ranges = [entry.range for entry in self.ledger.entries(lane=lane, topic=self.intake)]
        letters = self.pipeline.read(self.intake)
        return {
            letter.doc_id
            for letter in letters
            for each in ranges
            if letter.record.partition == each.partition and each.start <= letter.record.offset < each.end
        }

    def live_heads(self) -> dict[int, int]:
        return self.ledger.heads(self.name, self.intake, [0, 1])

    def carried(self) -> Counter[str]:
        """Return how often each document came from the first node to the second."""
        return self.pipeline.doc_ids(self.second)

    def happy_ends(self) -> int:
        entries = self.ledger.entries(lane=self.name, topic=self.second)
        return sum(entry.tally.documents_out.get("happy-end", 0) for entry in entries if entry.tally)

    def log(self, run_id: str, task_id: str) -> str:
        return self.airflow.log(self.dag_id, run_id, task_id)

    def tasks(self, run_id: str) -> dict[str, str]:
        states = self.airflow.drains(self.dag_id, run_id)
        return {task.removeprefix("drain_").removeprefix(f"{self.name}-"): state for task, state in states.items()}


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory, _only_our_settings) -> Iterator[Stack]:
    """Kafka, PostgreSQL and a whole Airflow, with DAG files and graphs of these tests' own."""
    graphs = {name: GRAPH.replace("NAME", name).replace("SCHEDULE", schedule) for name, schedule in SCHEDULES.items()}
    with airflow_stack(tmp_path_factory.mktemp("scheduled"), "embedded", graphs) as running:
        yield running


@pytest.fixture(scope="module")
def airflow(own_stack) -> AirflowApi:
    return AirflowApi(own_stack)


@pytest.fixture(scope="module")
def install(own_stack, airflow) -> Callable[[str], Installation]:
    """Apply one of the graphs and let its DAG run."""

    def install(name: str, **documents: int) -> Installation:
        made = Installation(name, own_stack, airflow, graph_file(own_stack.spec.folder.parent, name))
        # In order of time, as a topic is filled: each name says how many days ago its documents came.
        for prefix, days_ago in sorted(documents.items(), key=lambda item: -item[1]):
            made.send(days_ago, *(f"{prefix}{number}" for number in range(4)))
        airflow.unpause(made.dag_id)
        return made

    return install


def four(*prefixes: str) -> set[str]:
    return {f"{prefix}{number}" for prefix in prefixes for number in range(4)}


# -- the form ------------------------------------------------------------------------------------


def test_a_run_of_the_form_catches_up_on_the_topics_it_chose(install):
    made = install("form", a=3, b=1)

    run_id = made.airflow.trigger(made.dag_id, mode="catch_up", topics=[made.intake], budget=100)

    assert made.tasks(run_id) == {"intake_form": "success", "second": "skipped"}
    assert f"{made.second} is not among the topics of this run" in made.log(run_id, "check")
    assert made.carried() == Counter(four("a", "b"))
    entries = made.ledger.entries(lane="form", topic=made.intake)
    assert {entry.run_id for entry in entries} == {f"pipestream_form/{run_id}/drain_intake_form"}
    made.pipeline.check_ledger_tiles(made.intake)


def test_a_time_range_of_the_form_is_drained_again_once_and_moves_no_live_head(install):
    made = install("range", a=3, b=2, c=1)
    wanted = {"mode": "time_range", "since": made.day(3).isoformat(), "until": made.day(2).isoformat()}

    first = made.airflow.trigger(made.dag_id, **wanted)

    assert made.tasks(first) == {"intake_range": "success", "second": "success"}
    assert made.taken_in(made.lane(3)) == four("a")
    assert made.carried() == Counter(four("a"))
    assert made.happy_ends() == 4
    assert made.live_heads() == {}

    here = timezone(timedelta(hours=2))
    same = {side: datetime.fromisoformat(wanted[side]).astimezone(here).isoformat() for side in ("since", "until")}
    again = made.airflow.trigger(made.dag_id, mode="time_range", **same)

    assert made.tasks(again) == {"intake_range": "skipped", "second": "skipped"}
    assert f"of {made.intake} is finished" in made.log(again, "check")
    assert f"nothing to drain in {made.second}" in made.log(again, "check")
    assert made.carried() == Counter(four("a"))


def test_the_api_refuses_a_form_that_is_filled_in_wrongly(airflow):
    airflow.wait_for_dag("pipestream_form")

    for wrong in ({"mode": "sideways"}, {"topics": ["intake.others"]}, {"budget": 0}, {"since": "yesterday"}):
        body = {"logical_date": None, "conf": wrong}
        status, said = airflow.refusal("POST", "/api/v2/dags/pipestream_form/dagRuns", body)

        assert status == 400, said
        assert next(iter(wrong)) in said


# -- backfills -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backfilled:
    """The graph with a schedule after its first run and a backfill of two of three days, and what was there then."""

    made: Installation
    heads_before: dict[int, int]
    heads: dict[int, int]
    carried: Counter[str]
    happy_ends: int
    runs: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def backfilled(install) -> Backfilled:
    made = install("daily", a=4, b=3, c=1)
    wait_for(lambda: made.airflow.runs(made.dag_id, "scheduled"), "no scheduled run")
    for run in made.airflow.runs(made.dag_id, "scheduled").values():
        made.airflow.wait_for_run(made.dag_id, run["dag_run_id"])
    assert made.carried() == Counter(four("a", "b", "c"))
    heads_before = made.live_heads()
    made.airflow.create_backfill(made.dag_id, made.day(4), made.day(3))
    runs = made.airflow.runs(made.dag_id, "backfill")
    return Backfilled(made, heads_before, made.live_heads(), made.carried(), made.happy_ends(), runs)


def test_a_backfill_drains_each_interval_again_in_a_lane_of_its_own(backfilled):
    made = backfilled.made

    assert set(backfilled.runs) == {f"{made.day(4):%Y-%m-%d}", f"{made.day(3):%Y-%m-%d}"}
    for run in backfilled.runs.values():
        assert made.tasks(run["dag_run_id"])["intake_daily"] == "success"
    assert made.taken_in(made.lane(4)) == four("a")
    assert made.taken_in(made.lane(3)) == four("b")


def test_a_backfill_brings_out_its_documents_and_no_others(backfilled):
    assert backfilled.carried == Counter(four("a", "b")) + Counter(four("a", "b", "c"))
    assert backfilled.happy_ends == 20


def test_a_backfill_moves_no_live_head(backfilled):
    assert backfilled.heads_before == {0: 6, 1: 6}
    assert backfilled.heads == backfilled.heads_before


def test_a_backfill_created_again_does_nothing_new_and_says_so(backfilled):
    made = backfilled.made
    entries = [made.ledger.entries(lane=made.lane(days_ago)) for days_ago in (4, 3)]

    made.airflow.create_backfill(made.dag_id, made.day(4), made.day(2), "--reprocess-behavior", "completed")

    runs = made.airflow.runs(made.dag_id, "backfill")
    for days_ago in (4, 3):
        run_id = runs[f"{made.day(days_ago):%Y-%m-%d}"]["dag_run_id"]
        assert made.tasks(run_id) == {"intake_daily": "skipped", "second": "skipped"}
        assert f"of {made.intake} is finished" in made.log(run_id, "check")
    empty = runs[f"{made.day(2):%Y-%m-%d}"]["dag_run_id"]
    assert "has no records of that time" in made.log(empty, "check")
    assert [made.ledger.entries(lane=made.lane(days_ago)) for days_ago in (4, 3)] == entries
    assert {doc_id: made.carried()[doc_id] for doc_id in four("a", "b")} == dict.fromkeys(four("a", "b"), 2)


def test_a_backfill_over_a_day_that_was_run_already_carries_its_documents_to_the_end(backfilled):
    made = backfilled.made
    live = made.live_heads()
    before = made.happy_ends()

    made.airflow.create_backfill(made.dag_id, made.day(1), made.day(1), "--reprocess-behavior", "completed")

    run = made.airflow.runs(made.dag_id, "backfill")[f"{made.day(1):%Y-%m-%d}"]
    assert run["dag_run_id"].startswith("scheduled__")
    assert made.tasks(run["dag_run_id"]) == {"intake_daily": "success", "second": "success"}
    assert made.taken_in(made.lane(1)) == four("c")
    assert made.happy_ends() == before + 4
    assert made.live_heads() == live


def test_a_backfill_of_a_graph_without_a_schedule_is_refused_with_the_reason(airflow):
    airflow.wait_for_dag("pipestream_form")
    day = {"from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-02T00:00:00Z"}

    status, said = airflow.refusal("POST", "/api/v2/backfills", {"dag_id": "pipestream_form", **day})
    told = airflow.run_command(
        *("backfill", "create", "--dag-id", "pipestream_form"),
        *("--from-date", "2026-03-01", "--to-date", "2026-03-02"),
    )

    reason = "pipestream_form has a non-periodic schedule that does not support backfills"
    assert (status, reason in said) == (422, True), said
    assert told.returncode != 0
    assert reason in " ".join(told.stderr.split()), told.stderr

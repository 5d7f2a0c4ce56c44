"""Approval DAGs, run by Airflow on real servers: a dry run, an answer of a person, and then exactly what was shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipestream.dead_letters import State, dead_letter_topics, list_dead_letters
from pipestream.dead_letters.log import DecisionLog
from pipestream.ledger.entries import EntryKind
from pipestream_testing.answered_run import PERSON
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

REPOSITORY = Path(__file__).resolve().parents[2]
GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: NAME, account: acme, entry: first, partitions: 1}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:fail_on_bad"}
"""

pytestmark = [pytest.mark.stack, pytest.mark.airflow]


class Installation:
    """A small graph with three dead letters, and Airflow with the approval DAGs that ship."""

    def __init__(self, settings, graph_file: Path, environment: dict[str, str]) -> None:
        self.settings = settings
        self.pipeline = Pipeline(settings, graph_file)
        self.name = self.pipeline.graph.graph_id
        self.intake = f"intake.{self.name}"
        self._environment = environment

    def letters(self, *states: State) -> list[str]:
        topics = dead_letter_topics([self.pipeline.graph], self.settings)
        found = list_dead_letters(self.settings, topics, states=states or (State.OPEN,))
        return [letter.doc_id for letter in found]

    def run(self, answer: str, **form: object) -> dict[str, Any]:
        """Run the approval DAG with a filled-in form, and give this answer when it asks."""
        command = [sys.executable, "-m", "pipestream_testing.answered_run", f"pipestream_{self.name}.approve", answer]
        done = subprocess.run(
            [*command, json.dumps(form)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        results = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        assert results, done.stdout[-6_000:]
        return json.loads(results[0]) | {"log": done.stdout}


@pytest.fixture
def installation(settings, unique, airflow_env, tmp_path) -> Installation:
    write_settings(tmp_path / "settings.toml", settings)
    folder = tmp_path / "dags"
    (folder / "graphs").mkdir(parents=True)
    shutil.copy(REPOSITORY / "dags" / "pipestream_approvals.py", folder)
    graph_file = folder / "graphs" / "graph.yaml"
    graph_file.write_text(GRAPH.replace("NAME", unique))
    environment = {
        **airflow_env,
        "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
    }
    made = Installation(settings, graph_file, environment)
    made.pipeline.create_topics()
    made.pipeline.send(made.intake, ["good-1", "bad-1", "bad-2", "bad-3"])
    made.pipeline.drain(made.intake, "before")
    assert made.letters() == ["bad-1", "bad-2", "bad-3"]
    return made


def test_an_approved_purge_does_what_the_request_showed_and_records_who_decided(installation):
    run = installation.run("Approve", action="purge", doc_ids=["bad-1", "bad-2"], reason="test data")

    (asked,) = run["asked"]
    assert asked["subject"] == f"Purge 2 dead letters of {installation.name}?"
    assert "Asked by **dag_test**: test data" in asked["body"]
    assert "| error | `ModuleFailed` | 2 |" in asked["body"]
    assert asked["defaults"] == ["Reject"]
    assert run["tasks"] == dict.fromkeys(("dry_run", "approve", "perform", "report"), "success")
    assert installation.letters() == ["bad-3"]
    assert installation.letters(State.PURGED) == ["bad-1", "bad-2"]
    plan = DecisionLog(installation.settings).read().plans[run["returned"]["perform"]["action_id"]]
    assert plan.by == f"{PERSON}, asked by dag_test"
    assert run["returned"]["report"]["answered_by"] == PERSON


def test_a_rejected_action_changes_nothing_and_the_report_says_who_rejected_it(installation):
    run = installation.run("Reject", action="replay")

    assert run["state"] == "success"
    assert run["tasks"] == {"dry_run": "success", "approve": "success", "perform": "skipped", "report": "success"}
    assert run["returned"]["report"] == {
        "asked": f"Replay 3 dead letters of {installation.name}?",
        "asked_by": "dag_test",
        "answer": "Reject",
        "answered_by": PERSON,
        "done": {},
    }
    assert installation.letters() == ["bad-1", "bad-2", "bad-3"]


def test_an_approved_rebaseline_moves_the_heads_and_the_ledger_says_who_decided(installation):
    installation.pipeline.send(installation.intake, ["bad-4", "bad-5"])
    before = installation.pipeline.ledger.heads(installation.name, installation.intake, [0])

    run = installation.run("Approve", action="rebaseline", topic=installation.intake, to="latest")

    assert run["state"] == "success", run["log"][-6_000:]
    last = installation.pipeline.entries(installation.intake)[-1]
    assert last.kind is EntryKind.REBASELINED
    assert last.run_id == f"rebaseline by {PERSON}, asked by dag_test"
    assert (last.range.start, last.range.end) == (before[0], before[0] + 2)
    assert f"| 0 | {before[0]} | {before[0] + 2} | gives up 2 offsets |" in run["asked"][0]["body"]


@pytest.mark.slow
def test_a_form_that_contradicts_itself_fails_before_anybody_is_asked(installation):
    run = installation.run("Approve", action="rebaseline", topic=installation.intake, to="latest", nodes=["first"])

    assert run["asked"] == []
    assert run["state"] == "failed"
    assert run["tasks"]["perform"] == "upstream_failed"
    assert "nodes is of no use for rebaseline: empty it, or choose the action purge or replay" in run["log"]

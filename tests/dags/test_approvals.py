"""Approval DAGs, run by Airflow on real servers: a dry run, an answer of a person, and then exactly what was shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipestream.dead_letters import State, dead_letter_topics, list_dead_letters
from pipestream.dead_letters.log import DecisionLog
from pipestream.ledger.entries import EntryKind
from pipestream.settings import Settings
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
    """A small graph with three dead letters and two waiting records, and Airflow with the approval DAGs that ship."""

    def __init__(self, settings: Settings, folder: Path, airflow_env: dict[str, str]) -> None:
        self.settings = settings
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.intake = f"intake.{self.name}"
        write_settings(folder / "settings.toml", settings)
        (folder / "graphs").mkdir()
        shutil.copy(REPOSITORY / "dags" / "pipestream_approvals.py", folder)
        graph_file = folder / "graphs" / "graph.yaml"
        graph_file.write_text(GRAPH.replace("NAME", self.name))
        self.pipeline = Pipeline(settings, graph_file)
        self.pipeline.create_topics()
        self.pipeline.send(self.intake, ["good-1", "bad-1", "bad-2", "bad-3"])
        self.pipeline.drain(self.intake, "before")
        assert self.letters() == ["bad-1", "bad-2", "bad-3"]
        self.pipeline.send(self.intake, ["bad-4", "bad-5"])
        self.head = self.pipeline.ledger.heads(self.name, self.intake, [0])[0]
        self._environment = {
            **airflow_env,
            "PIPESTREAM_CONFIG": str(folder / "settings.toml"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        }

    def letters(self, *states: State) -> list[str]:
        topics = dead_letter_topics([self.pipeline.graph], self.settings)
        found = list_dead_letters(self.settings, topics, states=states or (State.OPEN,))
        return [letter.doc_id for letter in found]

    def run(self, answers_and_forms: Sequence[tuple[str, dict[str, object]]]) -> list[dict[str, Any]]:
        """Run the approval DAG with each filled-in form, and give its answer when it asks; all in one process."""
        command = [sys.executable, "-m", "pipestream_testing.answered_run", f"pipestream_{self.name}.approve"]
        done = subprocess.run(
            [*command, json.dumps(answers_and_forms)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        results = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        assert len(results) == len(answers_and_forms), done.stdout[-6_000:]
        return [json.loads(result) | {"log": done.stdout} for result in results]


@pytest.fixture(scope="module")
def installation(module_settings, airflow_env, tmp_path_factory) -> Installation:
    return Installation(module_settings, tmp_path_factory.mktemp("dags"), airflow_env)


@pytest.fixture(scope="module")
def runs(installation) -> dict[str, dict[str, Any]]:
    """All runs, one after the other: an Airflow takes longer to start than to run one of them."""
    rebaseline = {"action": "rebaseline", "topic": installation.intake, "to": "latest"}
    forms: dict[str, tuple[str, dict[str, object]]] = {
        "rejected replay": ("Reject", {"action": "replay"}),
        "contradiction": ("Approve", {**rebaseline, "nodes": ["first"]}),
        "approved purge": ("Approve", {"action": "purge", "doc_ids": ["bad-1", "bad-2"], "reason": "test data"}),
        "approved rebaseline": ("Approve", rebaseline),
    }
    return dict(zip(forms, installation.run(list(forms.values())), strict=True))


def test_an_approved_purge_does_what_the_request_showed_and_records_who_decided(installation, runs):
    run = runs["approved purge"]

    (asked,) = run["asked"]
    assert asked["subject"] == f"Purge 2 dead letters of {installation.name}?"
    assert "Asked by **dag_test**: test data" in asked["body"]
    assert "| error | `ModuleFailed` | 2 |" in asked["body"]
    assert asked["defaults"] == ["Reject"]
    assert run["tasks"] == dict.fromkeys(("dry_run", "approve", "perform", "report"), "success")
    assert installation.letters(State.PURGED) == ["bad-1", "bad-2"]
    plan = DecisionLog(installation.settings).read().plans[run["returned"]["perform"]["action_id"]]
    assert plan.by == f"{PERSON}, asked by dag_test"
    assert run["returned"]["report"]["answered_by"] == PERSON


def test_a_rejected_action_changes_nothing_and_the_report_says_who_rejected_it(installation, runs):
    run = runs["rejected replay"]

    assert run["state"] == "success"
    assert run["tasks"] == {"dry_run": "success", "approve": "success", "perform": "skipped", "report": "success"}
    assert run["returned"]["report"] == {
        "asked": f"Replay 3 dead letters of {installation.name}?",
        "asked_by": "dag_test",
        "answer": "Reject",
        "answered_by": PERSON,
        "done": {},
    }
    assert installation.letters() == ["bad-3"], "all that the purge, which came later, did not take"
    assert installation.letters(State.REPLAYED) == []


def test_an_approved_rebaseline_moves_the_heads_and_the_ledger_says_who_decided(installation, runs):
    run = runs["approved rebaseline"]

    assert run["state"] == "success", run["log"][-6_000:]
    last = installation.pipeline.entries(installation.intake)[-1]
    assert last.kind is EntryKind.REBASELINED
    assert last.run_id == f"rebaseline by {PERSON}, asked by dag_test"
    head = installation.head
    assert (last.range.start, last.range.end) == (head, head + 2)
    assert f"| 0 | {head} | {head + 2} | gives up 2 offsets |" in run["asked"][0]["body"]


def test_a_form_that_contradicts_itself_fails_before_anybody_is_asked(runs):
    run = runs["contradiction"]

    assert run["asked"] == []
    assert run["state"] == "failed"
    assert run["tasks"]["perform"] == "upstream_failed"
    assert "rebaseline does not use nodes: leave that empty, or choose the action purge or replay" in run["log"]

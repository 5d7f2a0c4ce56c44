"""A paused datasource and a graph in design are left alone, whoever asks: command line, Spark job or Airflow."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.drain.backfill import Backfill
from pipestream.drain.check import examine_topics, find_reason_to_skip
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.graph.load import load_graph
from pipestream.leases.none import NoLeaseStore
from pipestream_testing.settings_file import write_settings

pytestmark = pytest.mark.stack

CHANGES = {
    "paused": ("    entry: first\n", "    entry: first\n    paused: true\n", "datasource {} is paused in the graph"),
    "design": ("datasources:\n", "mode: design\ndatasources:\n", "graph {} is in design"),
}
IN_THE_ACTIVE_VERSION = {
    "paused": "datasource {} is paused in the active version",
    "design": "graph {} is in design in the active version",
}


@pytest.fixture(params=CHANGES)
def idle(request, pipeline, graph_text, unique, tmp_path) -> tuple[Path, str]:
    """A graph's file that says to leave documents alone, and why; its topics are there."""
    old, new, reason = CHANGES[request.param]
    assert old in graph_text
    file = tmp_path / "idle.yaml"
    file.write_text(graph_text.replace(old, new, 1))
    return file, reason.format(unique)


def test_a_drain_on_the_command_line_is_skipped_and_ends_with_0(run, idle, pipeline, topic, second):
    file, reason = idle
    pipeline.send(topic, ["a"])

    ran = run("drain", "--graph", file, "--topic", topic)

    assert (ran.code, ran.out.startswith("skipped: ")) == (0, True)
    assert reason in " ".join(ran.out.split())
    assert pipeline.doc_ids(second) == {}


def test_a_backfill_is_skipped(idle, pipeline, topic, second):
    file, reason = idle
    pipeline.send(topic, ["a"])
    request = DrainRequest(load_graph(file), topic, "run-1", 100, Backfill("again", offsets={0: (0, 1)}))

    report = run_drain(request, pipeline.settings, LocalRunner(pipeline.settings), leases=NoLeaseStore())

    assert report.status == "skipped"
    assert reason in report.reason
    assert reason in find_reason_to_skip(pipeline.settings, request)
    assert pipeline.doc_ids(second) == {}


def test_documents_are_not_brought_in(run, idle, documents, pipeline, topic, unique):
    file, reason = idle

    ran = run("ingest", "--graph", file, "--datasource", unique, documents, "--json")

    answer = json.loads(ran.out)
    assert (ran.code, answer["documents"]) == (0, 0)
    assert reason in answer["skipped"]
    assert pipeline.doc_ids(topic) == {}


def test_a_topic_behind_intake_is_drained_while_its_datasource_is_paused(pipeline, graph_text, topic, second, tmp_path):
    pipeline.send(topic, ["a"])
    pipeline.drain(topic, "run-1")
    file = tmp_path / "paused.yaml"
    old, new, _ = CHANGES["paused"]
    file.write_text(graph_text.replace(old, new, 1))

    request = DrainRequest(load_graph(file), second, "run-2", 100)
    report = run_drain(request, pipeline.settings, LocalRunner(pipeline.settings), leases=NoLeaseStore())

    assert (report.status, report.records) == ("drained", 1)


@pytest.fixture(params=IN_THE_ACTIVE_VERSION)
def reason_of_active(request, pipeline, graph_text, unique, tmp_path) -> str:
    """Why a version leaves documents alone that is active, but not in the graph's file."""
    old, new, _ = CHANGES[request.param]
    changed = tmp_path / "changed.yaml"
    changed.write_text(graph_text.replace(old, new, 1))
    with closing(GraphVersions(pipeline.settings)) as versions:
        versions.save(pipeline.graph, applied_by="test")
        versions.save(load_graph(changed), applied_by="test")
    return IN_THE_ACTIVE_VERSION[request.param].format(unique)


def test_a_drain_obeys_the_active_version_although_the_file_was_not_written(
    run, reason_of_active, pipeline, topic, second
):
    pipeline.send(topic, ["a"])
    request = DrainRequest(pipeline.graph, topic, "run-1", 100)

    ran = run("drain", "--graph", pipeline.graph_file, "--topic", topic)
    (finding,) = examine_topics(pipeline.settings, [request])

    assert (ran.code, ran.out.startswith("skipped: ")) == (0, True)
    assert reason_of_active in " ".join(ran.out.split())
    assert reason_of_active in find_reason_to_skip(pipeline.settings, request)
    assert reason_of_active in finding.reason
    assert finding.is_final
    assert pipeline.doc_ids(second) == {}


def test_documents_are_not_brought_in_while_the_active_version_is_paused(
    run, reason_of_active, documents, pipeline, topic, unique
):
    ran = run("ingest", "--graph", pipeline.graph_file, "--datasource", unique, documents, "--json")

    assert (ran.code, pipeline.doc_ids(topic)) == (0, {})
    assert reason_of_active in json.loads(ran.out)["skipped"]


def test_a_drain_goes_on_when_the_active_version_is_resumed(run, reason_of_active, pipeline, topic, second):
    pipeline.send(topic, ["a"])
    with closing(GraphVersions(pipeline.settings)) as versions:
        versions.save(pipeline.graph, applied_by="test")

    ran = run("drain", "--graph", pipeline.graph_file, "--topic", topic)

    assert (ran.code, pipeline.doc_ids(second)) == (0, {"a": 1})


def test_with_leases_in_files_a_drain_asks_no_postgresql(run, pipeline, topic, second, tmp_path, config_file):
    pipeline.send(topic, ["a"])
    nowhere = {"leases": "file", "postgres_dsn": "postgresql://nobody@127.0.0.1:1/nowhere"}
    write_settings(config_file, pipeline.settings.model_copy(update={**nowhere, "lease_folder": tmp_path / "leases"}))

    ran = run("drain", "--graph", pipeline.graph_file, "--topic", topic)

    assert (ran.code, pipeline.doc_ids(second)) == (0, {"a": 1})

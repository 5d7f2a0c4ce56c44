"""The commands that apply graphs and go back to earlier ones, on real servers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import start_producer
from pipestream.leases import open_lease_store
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        pytest.param("to: fused\n", "to: fuzed  # here\n", "there is no node fuzed", id="an unknown node"),
        pytest.param(
            "edges:\n",
            "  - id: first  # here\n    module: python:pipestream_testing.steps:pass_on\nedges:\n",
            "first",
            id="a duplicate id",
        ),
        pytest.param(
            'when: doc.search_metadata.title.startsWith("fused")\n',
            'when: doc.search_metadata.titel == "fused"  # here\n',
            "titel",
            id="a bad condition",
        ),
    ],
)
def test_a_bad_graph_file_is_refused_with_the_place_and_changes_nothing(
    run, graph_file, settings, unique, right, wrong, told
):
    text = graph_file.read_text()
    assert right in text
    text = text.replace(right, wrong)
    graph_file.write_text(text)
    line = text.partition("# here")[0].count("\n") + 1

    ran = run("graph", "apply", graph_file)

    assert ran.code == 2
    (problem,) = [problem for problem in ran.err.splitlines() if f"{graph_file}:{line}: " in problem]
    assert told in problem
    assert [topic for topic in Broker(settings).existing() if unique in topic] == []
    with closing(GraphVersions(settings)) as versions, closing(open_lease_store(settings)) as leases:
        assert versions.graph_ids() == []
        assert leases.topics() == []


def test_a_graph_has_a_history_that_can_be_gone_back_in(run, applied, unique):
    first = applied.read_text()
    applied.write_text(first.replace("partitions: 2", "partitions: 3"))

    changed = run("graph", "diff", applied)
    dry = run("graph", "apply", applied, "--dry-run", "--json").json()
    run("graph", "apply", applied)
    back = run("graph", "rollback", unique, "1", "--file", applied, "--json")
    history = run("graph", "history", unique, "--json").json()

    assert "partitions 2 → 3" in changed.out
    assert dry["grow"][f"intake.{unique}"] == 3
    assert back.json()["version"]["version"] == 1
    assert [(version["version"], version["active"]) for version in history] == [(2, False), (1, True)]
    assert run("graph", "diff", applied).out == "no difference\n"
    assert "partitions 3 → 2" in run("graph", "diff", f"{unique}@2", f"{unique}@1").out


def test_a_changed_graph_is_compared_on_drained_documents_without_changing_anything(run, applied, settings, unique):
    topic, next_topic = f"intake.{unique}", f"pipestream.{unique}.second"
    pipeline = Pipeline(settings, applied)
    nothing_yet = run("graph", "compare", applied)
    pipeline.send(topic, ["a", "b", "bad-one", "fused-one"])
    pipeline.drain(topic, "run-1")
    pipeline.send(topic, ["never-drained"])
    before = pipeline.read(next_topic), pipeline.entries(topic), pipeline.group_offsets(topic)

    same = run("graph", "compare", applied, "--json").json()
    applied.write_text(applied.read_text().replace('startsWith("fused")', 'startsWith("b")'))
    changed = run("graph", "compare", applied, "--json").json()
    shown = run("graph", "compare", applied)
    applied.write_text(applied.read_text().replace('startsWith("b")', 'startsWith("fused-")'))
    untested = run("graph", "compare", applied, "--documents", "1")

    assert nothing_yet.code == 2
    assert "nothing was drained" in nothing_yet.err
    assert (same["records"], same["different"], same["failed_before"], same["failed_after"]) == (4, 0, 1, 1)
    assert (changed["records"], changed["different"]) == (4, 3)
    assert {each["doc_id"] for each in changed["documents"]} == {"b", "bad-one", "fused-one"}
    assert (changed["failed_before"], changed["failed_after"]) == (1, 0)
    assert {each["edge"]: (each["before"], each["after"]) for each in changed["edges"]} == {
        "first--second": (3, 2),
        "first--fused": (1, 2),
    }
    assert changed["conditions"] == [
        {"edge": "first--second", "reached": 4, "true_before": 3, "true_after": 2},
        {"edge": "first--fused", "reached": 4, "true_before": 1, "true_after": 2},
    ]
    assert "4 records compared, 3 come out differently" in shown.out
    assert "1 record compared, 0 come out differently" in untested.out
    assert "condition of first--fused: 1 documents came to it, true for 1 before and 1 after" in untested.out
    assert "the latest 1 of 4 drained offsets" in untested.err
    assert (pipeline.read(next_topic), pipeline.entries(topic), pipeline.group_offsets(topic)) == before


def without_datasource(graph_file: Path) -> None:
    """Take the datasource out of a graph, so that its intake topic is needed no longer."""
    head, _, rest = graph_file.read_text().partition("datasources:")
    graph_file.write_text(f"{head}nodes:{rest.partition('nodes:')[2]}")


@pytest.fixture
def drained(run, applied, settings, unique) -> str:
    """A topic whose two records are drained."""
    topic = f"intake.{unique}"
    Pipeline(settings, applied).send(topic, ["a", "b"])
    assert run("drain", "--graph", applied, "--topic", topic, "--json").json()["records"] == 2
    return topic


def test_a_topic_whose_unread_records_retention_deleted_does_not_stand_in_the_way_and_goes(
    run, applied, drained, settings, unique
):
    Pipeline(settings, applied).send(drained, ["c", "d", "e"])
    without_datasource(applied)
    unread = run("graph", "apply", applied, "--json").json()["unread"]
    delete_before(settings, drained, 0, 4)
    some_deleted = run("graph", "apply", applied, "--json")
    delete_before(settings, drained, 0, 5)
    all_deleted = run("graph", "apply", applied, "--json")

    assert unread == [drained]
    assert (some_deleted.code, some_deleted.json()["unread"]) == (0, [drained])
    assert (all_deleted.code, all_deleted.json()["retired"]) == (0, [drained])
    assert drained not in Broker(settings).existing()


def test_a_topic_with_an_open_transaction_stays_though_all_that_is_committed_is_drained(
    run, applied, drained, settings, unique
):
    producer = start_producer(settings, unique, drained)
    producer.begin_transaction()
    producer.produce(drained, b"not committed yet", partition=0)
    assert producer.flush(120) == 0
    without_datasource(applied)
    ran = run("graph", "apply", applied, "--json")
    producer.abort_transaction(120)

    assert (ran.code, ran.json()["unread"]) == (0, [drained])
    assert drained in Broker(settings).existing()


def test_a_rollback_whose_file_cannot_be_written_says_that_it_is_applied(run, applied, unique, tmp_path):
    ran = run("graph", "rollback", unique, "1", "--file", tmp_path / "nowhere" / "graph.yaml")

    assert ran.code == 2
    assert "the version is applied, but" in ran.err


def test_an_unknown_version_is_reported(run, applied, unique):
    ran = run("graph", "rollback", unique, "9")

    assert ran.code == 2
    assert f"graph {unique} has no version 9" in ran.err


def test_a_graph_is_deleted_after_it_was_shown_what_is_left(run, applied, drained, settings, unique):
    Pipeline(settings, applied).send(drained, ["c"])
    started = run("graph", "delete", unique)
    run("leases", "set", "--graph", applied, "--stopped")
    refused = run("graph", "delete", unique, "--yes")
    shown = run("graph", "delete", unique, "--leave-behind")
    deleted = run("graph", "delete", unique, "--leave-behind", "--yes", "--json")
    history = run("graph", "history", unique)

    assert (started.code, "are started" in started.err) == (0, True)
    assert (refused.code, f"records wait in {drained} (1)" in refused.err) == (2, True)
    assert "nothing was deleted; add --yes" in shown.out
    assert deleted.json()["waiting"][drained] == 1
    assert "deleted the graph at" in history.err
    assert run("graph", "delete", unique, "--yes").code == 2
    assert run("graph", "rollback", unique, "1").code == 0

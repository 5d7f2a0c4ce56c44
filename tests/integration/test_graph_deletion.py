"""Deleting a graph: what stands against it, and what it leaves."""

from __future__ import annotations

from contextlib import closing

import pytest

from pipestream import apply_graph, delete_graph
from pipestream.deployment.versions import GraphVersions, VersionMissing
from pipestream.errors import GraphInUse
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.leases.names import lease_name
from pipestream.leases.store import DesiredState
from pipestream.topics.required import leased_topics
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(settings, tmp_path):
    """With a folder of graphs of the test's own."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    return settings.model_copy(update={"graphs_folder": folder})


@pytest.fixture
def pipeline(settings, unique, graph_text):
    """The small graph, applied. Its file is in the folder of graphs."""
    file = settings.graphs_folder / f"{unique}.yaml"
    file.write_text(graph_text)
    made = Pipeline(settings, file)
    apply_graph(file, settings=settings)
    return made


@pytest.fixture
def store(settings):
    with closing(open_lease_store(settings)) as opened:
        yield opened


@pytest.fixture
def stop(store, pipeline):
    def stop():
        for topic in leased_topics(pipeline.graph):
            store.set_desired(topic, DesiredState(started=False))

    return stop


def refusal(settings, graph_id, **choices):
    with pytest.raises(GraphInUse) as refused:
        delete_graph(graph_id, settings=settings, **choices)
    return refused.value


def test_a_graph_that_is_started_held_has_a_file_or_something_waiting_is_refused_with_every_reason(
    pipeline, settings, store, stop, unique
):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "bad-one"])
    pipeline.drain(topic, "run-1")
    pipeline.drain(f"pipestream.{unique}.second", "run-2")
    pipeline.send(topic, ["b", "c"])
    lease = store.acquire(lease_name(topic, unique), 0, "run-3@host:1", 60.0)

    started = refusal(settings, unique)
    stop()
    held = refusal(settings, unique)
    store.release(lease)
    forced = refusal(settings, unique, leave_behind=True)

    assert [reason.partition(";")[0] for reason in started.reasons] == [
        f"{', '.join(leased_topics(pipeline.graph))} are started",
        f"leases are held on {topic} (by run-3@host:1)",
        f"Airflow makes its DAG from {unique}.yaml",
        f"records wait in {topic} (2) and 1 dead letters wait for a decision",
    ]
    assert held.reasons == started.reasons[1:]
    assert forced.reasons == started.reasons[2:3], "a file is not what is left behind: its DAG would run on"
    with closing(GraphVersions(settings)) as versions:
        assert versions.active(unique) is not None
    assert pipeline.graph_file.exists()


def test_a_deleted_graph_leaves_topics_ledger_and_versions_and_continues_when_it_is_applied_again(
    pipeline, settings, store, stop, unique
):
    topic = f"intake.{unique}"
    text = pipeline.graph_file.read_text()
    pipeline.send(topic, ["a", "b"])
    pipeline.drain(topic, "run-1")
    pipeline.send(topic, ["c"])
    topics = {each for each in Broker(settings).existing() if unique in each}
    entries = pipeline.entries(topic)
    stop()

    deleted = delete_graph(unique, deleted_by="ann", leave_behind=True, delete_file=True, settings=settings)

    assert (deleted.version, deleted.file) == (1, f"{unique}.yaml")
    # Two documents, and the marker of the transaction that brought them.
    assert deleted.waiting == {topic: 1, f"pipestream.{unique}.second": 3}
    assert not pipeline.graph_file.exists()
    assert {each for each in Broker(settings).existing() if unique in each} == topics
    assert set(deleted.topics) <= topics
    assert pipeline.entries(topic) == entries
    assert [each.lane for each in store.assignments(topic)] == [""], "the graph's own lane is forgotten"
    assert not store.desired(topic).started, "a DAG of a file that is left somewhere drains nothing"
    with pytest.raises(VersionMissing):
        delete_graph(unique, settings=settings)

    pipeline.graph_file.write_text(text)
    again = apply_graph(pipeline.graph_file, base_version=0, settings=settings)
    store.set_desired(topic, DesiredState())
    assert (again.version.version, again.created) == (1, ())
    assert pipeline.drain(topic, "run-2").records == 1, "only what was left behind"


def test_a_topic_that_another_graph_drains_need_not_be_stopped(pipeline, settings, store, stop, unique):
    other = f"graph: {unique}-other\ncluster: {unique}-other\n"
    source = f"{{id: {unique}, account: acme, entry: only, partitions: 2, retention_hours: 100000}}"
    other += f"datasources: [{source}]\nnodes: [{{id: only, type: connector}}]\n"
    file = settings.graphs_folder / "other.yaml"
    file.write_text(other)
    apply_graph(file, settings=settings)
    shared = f"intake.{unique}"
    stop()
    store.set_desired(shared, DesiredState())

    delete_graph(unique, delete_file=True, settings=settings)

    assert store.desired(shared).started
    assert {each.lane for each in store.assignments(shared)} == {f"{unique}-other"}


def test_without_leases_only_the_file_and_what_waits_stand_against_it(pipeline, settings, unique):
    without = settings.model_copy(update={"leases": "none"})

    (reason,) = refusal(without, unique).reasons
    deleted = delete_graph(unique, delete_file=True, settings=without)

    assert "Airflow makes its DAG" in reason
    assert (deleted.waiting, deleted.dead_letters) == ({}, 0)

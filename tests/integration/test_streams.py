"""A topic drained continuously: as documents arrive, following the graph and the operator, with the runs' ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest

from pipestream.graph.load import load_graph
from pipestream.graph.proto import graph_hash
from pipestream.leases import DesiredState, TopicMode
from pipestream.leases.names import lease_name
from pipestream.ledger import EntryKind
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import QUICK, StreamThread
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

STREAMING = DesiredState(mode=TopicMode.STREAMING)


@pytest.fixture
def pipeline(pipeline):
    """The small graph, with streams that record and follow more often than in production."""
    return Pipeline(pipeline.settings.model_copy(update=QUICK), pipeline.graph_file)


@pytest.fixture
def streaming(leases, topic):
    leases.set_desired(topic, STREAMING)


def wait_for_documents(pipeline, topic, count):
    wait_until(lambda: sum(pipeline.doc_ids(topic).values()) >= count, f"{count} documents were not in {topic}")


@pytest.mark.usefixtures("streaming")
def test_documents_come_out_as_they_arrive_and_the_ledger_tiles_when_it_ends(pipeline, topic, second):
    with StreamThread(pipeline, topic) as stream:
        for number in range(3):
            pipeline.send(topic, [f"doc-{number}"], partition=number % 2)
            wait_for_documents(pipeline, second, number + 1)

    assert pipeline.doc_ids(second) == Counter(["doc-0", "doc-1", "doc-2"])
    assert stream.join().reason == "it was asked to end"
    assert stream.join().tally.records == 3
    pipeline.check_ledger_tiles(topic)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == 3


@pytest.mark.usefixtures("streaming")
def test_many_chunks_become_one_entry_per_partition_and_interval(pipeline, topic):
    settings = pipeline.settings.model_copy(update={"chunk_records": 2, "stream_record_s": 600.0})
    slow = Pipeline(settings, pipeline.graph_file)
    documents = [f"doc-{number}" for number in range(20)]

    with StreamThread(slow, topic) as stream:
        slow.send(topic, documents)
        wait_until(lambda: slow.group_offsets(topic).get(0) == 20, "they were not drained")
        assert slow.entries(topic) == [], "the ledger follows later"
    stream.join()

    [entry] = slow.entries(topic)
    assert (entry.range.start, entry.range.end, entry.kind) == (0, 20, EntryKind.DRAINED)
    assert entry.tally.records == 20


@pytest.mark.usefixtures("streaming")
def test_a_stopped_topics_stream_ends_and_its_lease_is_free_with_everything_recorded(pipeline, topic, leases):
    with StreamThread(pipeline, topic) as stream:
        pipeline.send(topic, ["a", "b"])
        wait_until(lambda: pipeline.group_offsets(topic).get(0) == 2, "they were not drained")
        leases.set_desired(topic, replace(STREAMING, started=False))
        ended = stream.join()

    assert ended.reason == f"{topic} is stopped: `pipestream leases set {topic} --started`"
    assert ended.error is None
    pipeline.check_ledger_tiles(topic)
    [slot] = leases.assignments(lease_name(topic, pipeline.graph.graph_id))
    assert slot.holder == ""


@pytest.mark.usefixtures("streaming")
def test_a_topic_moved_to_batch_is_drained_on_by_the_next_run(pipeline, topic, second, leases):
    with StreamThread(pipeline, topic) as stream:
        pipeline.send(topic, ["streamed"])
        wait_until(lambda: pipeline.group_offsets(topic).get(0) == 1, "it was not drained")
        leases.set_desired(topic, DesiredState())
        assert "is in batch mode" in stream.join().reason
    pipeline.send(topic, ["in a batch"])

    report = pipeline.drain(topic, "run-1")

    assert (report.status, report.records, report.recovered_ranges) == ("drained", 1, 0)
    assert pipeline.doc_ids(second) == Counter(["streamed", "in a batch"])
    pipeline.check_ledger_tiles(topic)


@pytest.mark.usefixtures("streaming")
def test_another_version_of_the_graph_is_used_without_a_restart(pipeline, topic, second):
    changed = pipeline.graph_file.with_name("changed.yaml")
    changed.write_text(pipeline.graph_file.read_text().replace('"fused"', '"else"'))
    in_use = [pipeline.graph]

    with StreamThread(pipeline, topic, find_graph=lambda: in_use[0]) as stream:
        pipeline.send(topic, ["fused-before", "a"])
        wait_for_documents(pipeline, second, 1)
        in_use[0] = load_graph(changed)
        sent = count()
        # Documents that the earlier version sends elsewhere come to this topic as soon as the other one is used.
        wait_until(
            lambda: pipeline.send(topic, [f"fused-{next(sent)}"]) or len(pipeline.doc_ids(second)) > 1,
            "the other version was never used",
            poll_s=0.3,
        )
    assert stream.join().error is None

    assert "fused-before" not in pipeline.doc_ids(second)
    hashes = [entry.graph_hash for entry in pipeline.entries(topic) if entry.range.partition == 0]
    assert list(dict.fromkeys(hashes)) == [graph_hash(pipeline.graph), graph_hash(in_use[0])]
    pipeline.check_ledger_tiles(topic)

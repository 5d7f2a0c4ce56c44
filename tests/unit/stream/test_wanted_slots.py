"""Which slots are to be drained all the time."""

from __future__ import annotations

import pytest

from pipestream.deployment.versions import ActiveGraph
from pipestream.errors import DesiredStateInvalid, LeaseStoreUnavailable
from pipestream.graph.load import load_graph
from pipestream.graph.proto import built
from pipestream.leases import DesiredState
from pipestream.leases.store import TopicMode
from pipestream.stream.shares import SlotKey
from pipestream.stream.wanted import find_wanted

GRAPH = """
graph: g
cluster: main
datasources:
  - {id: files, account: acme, entry: first}
  - {id: quiet, account: acme, entry: first, paused: true}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: first, to: second}
"""
FILES, SECOND = "intake.files", "pipestream.main.second"
STREAMING = DesiredState(mode=TopicMode.STREAMING)


@pytest.fixture
def graphs(tmp_path):
    file = tmp_path / "g.yaml"
    file.write_text(GRAPH)
    return {"g": ActiveGraph(1, built(load_graph(file)))}


def slots(graphs, states, partitions=None, **options):
    partitions = {FILES: 4, SECOND: 4} if partitions is None else partitions
    wanted = find_wanted(graphs, lambda topic: states.get(topic, DesiredState()), partitions, **options)
    return list(wanted)


def test_only_topics_that_are_started_and_in_streaming_mode_are_wanted(graphs):
    stopped = DesiredState(started=False, mode=TopicMode.STREAMING)

    assert slots(graphs, {}) == []
    assert slots(graphs, {FILES: STREAMING, SECOND: stopped}) == [SlotKey("intake.files@g", 0)]


def test_a_topic_has_a_slot_per_replica_but_none_beyond_its_partitions(graphs):
    state = DesiredState(mode=TopicMode.STREAMING, replicas=3)

    assert [key.slot for key in slots(graphs, {FILES: state})] == [0, 1, 2]
    assert [key.slot for key in slots(graphs, {FILES: state}, {FILES: 2})] == [0, 1]


def test_a_topic_that_does_not_exist_has_one_slot_whose_stream_says_so(graphs):
    assert slots(graphs, {FILES: DesiredState(mode=TopicMode.STREAMING, replicas=3)}, {}) == [
        SlotKey("intake.files@g", 0)
    ]


def test_what_the_graph_says_to_leave_alone_is_not_wanted(graphs):
    assert slots(graphs, {"intake.quiet": STREAMING}) == []


def test_without_leases_every_topic_is_wanted_in_one_slot(graphs):
    assert slots(graphs, {}, has_leases=False) == [
        SlotKey("intake.files@g", 0),
        SlotKey("pipestream.main.second@g", 0),
    ]


def test_a_topic_whose_desired_state_cannot_be_read_does_not_keep_others_from_being_drained(graphs):
    def desired(topic):
        if topic == FILES:
            raise DesiredStateInvalid("for the test")
        return STREAMING

    assert list(find_wanted(graphs, desired, {SECOND: 1})) == [SlotKey("pipestream.main.second@g", 0)]


def test_a_store_that_does_not_answer_is_not_taken_for_nothing_wanted(graphs):
    def desired(_topic):
        raise LeaseStoreUnavailable("for the test")

    with pytest.raises(LeaseStoreUnavailable):
        find_wanted(graphs, desired, {})

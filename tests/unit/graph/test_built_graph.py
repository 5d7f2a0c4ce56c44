from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.errors import GraphInvalid
from pipestream.graph import proto
from pipestream.graph.proto import built, graph_hash, restore, to_binary
from pipestream.settings import Settings
from pipestream_testing.broker import ModelBroker
from pipestream_testing.model_drain import DEAD, GRAPH, OUT, TOPIC, drain_without_ledger, make_document, use_broker


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(proto, "_kept", type(proto._kept)())


@pytest.fixture
def builds(monkeypatch):
    """The messages that graphs were built of."""
    found = []
    from_kept = proto.from_kept

    def count(data, **rest):
        found.append(data)
        return from_kept(data, **rest)

    monkeypatch.setattr(proto, "from_kept", count)
    return found


def test_a_restored_graph_is_the_one_it_was_made_of_and_has_its_hash():
    version = restore(to_binary(GRAPH))

    assert (version.graph, version.digest) == (GRAPH, graph_hash(GRAPH))


def test_a_message_is_built_once_however_often_it_is_restored(builds):
    content = to_binary(GRAPH)

    assert restore(content) is restore(bytes(bytearray(content)))
    assert len(builds) == 1


def test_the_graph_of_a_run_in_this_process_is_not_built_again_for_its_tasks(builds):
    assert restore(built(GRAPH).content).graph is GRAPH
    assert builds == []


def test_few_versions_are_kept():
    versions = [built(replace(GRAPH, max_hops=number)) for number in range(1, 12)]

    assert len(proto._kept) == 8
    assert restore(versions[-1].content) is versions[-1]
    assert restore(versions[0].content) is not versions[0]


def test_bytes_that_are_not_a_graph_are_refused():
    with pytest.raises(GraphInvalid):
        restore(b"\xff")


def test_the_tasks_of_a_process_build_their_graph_once(builds, tmp_path):
    broker = ModelBroker()
    for topic in (TOPIC, DEAD, OUT):
        broker.create(topic, 2)
    for partition in (0, 1):
        broker.append(make_document(f"doc-{partition}", 0), partition)
    use_broker(broker)
    settings = Settings(store_uri=tmp_path.as_uri())

    drain_without_ledger(broker, settings, run_id="run-1", budget=10)

    assert len(broker.all_records(OUT)) == 2
    assert len(builds) == 1

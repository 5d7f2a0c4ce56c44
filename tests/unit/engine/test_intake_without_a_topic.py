"""What an engine that is called does with the functions that a drain uses: a stream in hand, and no offset."""

from __future__ import annotations

import pytest

from pipestream.engine.follow import follow
from pipestream.engine.intake import Arrival, Entrance, admit, take_in
from pipestream.engine.outputs import DeadLetterWriter, output_of
from pipestream.engine.process import Emission, Outcome, fail
from pipestream.engine.services import open_services
from pipestream.errors import DocumentMissing, ModuleFailed, RecordInvalid
from pipestream.graph.model import Datasource, Edge, Graph, Node, NodeType
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream

PASS_ON = "python:pipestream_testing.steps:pass_on"
GRAPH = Graph(
    "g",
    "main",
    (
        Node("a", "main", module=PASS_ON),
        Node("b", "main", module="python:pipestream_testing.steps:split_in_three"),
        Node("happy-end", "main", node_type=NodeType.SINK),
    ),
    (Edge("a--b", "a", "b"),),
    datasources=(Datasource("s", "acme", "a"),),
)
AT_DATASOURCE = Entrance(GRAPH, "a", "g", datasource_id="s")
AT_NODE = Entrance(GRAPH, "b", "g")
SETTINGS = Settings()


@pytest.fixture
def store(tmp_path):
    uri = (tmp_path / "objects").as_uri()
    with open_store(uri, Settings(store_uri=uri)) as store:
        yield store


def a_stream(**fields):
    stream = PipeStream(**fields)
    stream.document.doc_id = "d1"
    return stream


def at_b():
    stream = a_stream(stream_id="s1", current_node_id="b")
    stream.metadata.account_id = "acme"
    return stream


def test_a_stream_from_a_datasource_gets_account_node_and_an_identity_made_of_its_key():
    first, again, other = a_stream(), a_stream(), a_stream()

    assert [admit(each, AT_DATASOURCE, key) for each, key in ((first, "k1"), (again, "k1"), (other, "k2"))] == [
        None
    ] * 3

    assert (first.metadata.account_id, first.current_node_id, first.metadata.datasource_id) == ("acme", "a", "s")
    assert first.stream_id == again.stream_id != other.stream_id


def test_a_stream_for_a_node_keeps_its_identity_and_in_a_backfill_gets_another():
    live, backfill = at_b(), at_b()

    admit(live, AT_NODE, "k1")
    admit(backfill, Entrance(GRAPH, "b", "g@again", is_live=False), "k1")

    assert live == at_b()
    assert backfill.stream_id != "s1"


def test_a_stream_for_another_node_is_refused():
    with pytest.raises(RecordInvalid, match="on its way to 'b', not to 'a'"):
        admit(at_b(), Entrance(GRAPH, "a", "g"), "k1")


def test_documents_are_fetched_for_all_streams_at_once_and_one_that_is_missing_fails_alone(store):
    store.put("documents/acme/s/d1/x.pb", PipeDoc(doc_id="d1").SerializeToString())
    arrivals = []
    for name in ("d1", "none"):
        stream = PipeStream()
        stream.document_ref.object_key = f"documents/acme/s/{name}/x.pb"
        record = InputRecord("intake.s", -1, -1, 0, None, stream.SerializeToString())
        arrivals.append(Arrival(record, f"call/{name}"))

    found, missing = take_in(arrivals, AT_DATASOURCE, store)

    assert found.document.doc_id == "d1"
    assert isinstance(missing, DocumentMissing)


def test_services_are_opened_for_any_set_of_nodes():
    with open_services(built(GRAPH), SETTINGS, ["a", "b"]) as services:
        at_a = a_stream()
        admit(at_a, AT_DATASOURCE, "k1")

        (to_b,) = follow(at_a, GRAPH, services, SETTINGS)
        ended = follow(at_b(), GRAPH, services, SETTINGS)

    assert (to_b.outcome, to_b.to_node_id) == (Outcome.EDGE, "b")
    assert [each.outcome for each in ended] == [Outcome.HAPPY_END] * 3


def test_an_output_names_the_topic_of_its_edge_and_the_object_it_refers_to():
    stream = at_b()
    emission = Emission(Outcome.EDGE, stream, "a", "b", GRAPH.edges[0])

    output = output_of(emission, GRAPH)

    assert output.record.topic == "pipestream.main.b"
    assert list(output.objects) == ["streams/acme/s1/a.pb"]
    assert PipeStream.FromString(output.record.value).document_ref.doc_id == "d1"


def test_a_stream_that_came_by_a_call_gets_a_dead_letter_that_can_be_replayed():
    record = InputRecord("pipestream.main.b", -1, -1, 0, b"d1", at_b().SerializeToString())
    with open_services(built(GRAPH), SETTINGS, ["b"]) as services:
        failed = fail(at_b(), GRAPH, ModuleFailed("broken"), 1, services)
    letters = DeadLetterWriter(AT_NODE, run_id="call-1", graph_hash="h", now=lambda: 0.0)

    letter = letters.letter_of(failed, Arrival(record, "call/1"), is_entry=True).record

    assert (letter.topic, letter.key, letter.value) == ("dlq.main.b", b"d1", record.value)

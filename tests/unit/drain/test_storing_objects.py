from __future__ import annotations

import textwrap

import pytest

from pipestream.documents.references import key_of, place_of
from pipestream.drain.chunk import chunk_processor
from pipestream.drain.committer import Patience, store_objects
from pipestream.engine.services import open_services
from pipestream.graph.flow import fused_with
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.made import make_task

GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - {id: a, module: "python:pipestream_testing.steps:fail_on_bad", dead_letters: {include_payload: false}}
      - {id: b, type: sink}
    edges: [{from: a, to: b}]
"""


@pytest.fixture
def store_chunk(store):
    """Process documents in one chunk, store what is to be stored, and return the streams that are sent."""

    def store_chunk(*documents, text=GRAPH):
        graph = check_graph_text(textwrap.dedent(text).encode(), "g.yaml").require()
        task = make_task("intake.s", "a", datasource_id="s")
        records = [
            InputRecord("intake.s", 0, offset, 0, b"key", PipeStream(document=document).SerializeToString())
            for offset, document in enumerate(documents)
        ]
        with open_services(built(graph), Settings(), fused_with(graph, task.node_id)) as services:
            processor = chunk_processor(task, graph, services, store, Settings())
            result = processor.process(records)
            store_objects(result, processor, Patience("intake.s", Settings()))
        return [PipeStream.FromString(output.value) for output in result.outputs]

    return store_chunk


def document_of(doc_id, title):
    document = PipeDoc(doc_id=doc_id)
    document.search_metadata.title = title
    return document


def read(store, stream):
    return PipeDoc.FromString(store.get(key_of(stream)))


def test_a_document_is_where_the_convention_says(store_chunk, store):
    (sent,) = store_chunk(document_of("doc", "first"))

    assert key_of(sent) == f"streams/acme/{sent.stream_id}/a.pb"
    assert not sent.document_ref.object_key
    assert read(store, sent).search_metadata.title == "first"


@pytest.mark.parametrize("doc_id", ["doc", pytest.param("bad", id="dead letter")])
def test_a_second_try_with_other_bytes_leaves_those_of_the_first_alone(store_chunk, store, doc_id):
    (first,) = store_chunk(document_of(doc_id, "first"))

    (second, _) = store_chunk(document_of(doc_id, "second"), document_of("next", "new"))

    assert first.stream_id == second.stream_id
    assert [read(store, each).search_metadata.title for each in (first, second)] == ["first", "second"]
    assert second.document_ref.doc_id == doc_id
    assert second.document_ref.source_node_id == "a"


def test_a_second_try_with_the_same_bytes_has_the_same_names(store_chunk, store):
    first = store_chunk(document_of("doc", "same"), document_of("other", "same"))
    second = store_chunk(document_of("doc", "same"), document_of("other", "same"))

    assert [place_of(each) for each in first] == [place_of(each) for each in second]
    assert len(list(store.list("streams"))) == 2


def test_of_many_tries_each_has_its_own_bytes(store_chunk, store):
    sent = [store_chunk(document_of("doc", f"try {number}"))[0] for number in (0, 1, 2, 1)]

    assert [read(store, each).search_metadata.title for each in sent] == ["try 0", "try 1", "try 2", "try 1"]
    assert len({key_of(each) for each in sent}) == 3

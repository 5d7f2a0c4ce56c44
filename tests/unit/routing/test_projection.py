from __future__ import annotations

import time

import pytest

from pipestream.engine.graph_conditions import compile_conditions
from pipestream.graph.model import Edge, Graph, Node
from pipestream.routing.engine import DOCUMENT, STREAM, VARIABLES
from pipestream.routing.projection import copier, uses_of
from pipestream.routing.syntax import parse
from pipestream.wire import PipeDoc, PipeStream


def full_document() -> PipeDoc:
    document = PipeDoc(doc_id="d")
    document.search_metadata.title = "title"
    document.search_metadata.body = "body"
    document.search_metadata.content_length = 0
    document.search_metadata.keywords.keyword.extend(["a", "b"])
    document.search_metadata.tags.tag_data["k"] = "v"
    document.search_metadata.custom_fields["x"] = 1
    document.blob_bag.blobs.blob.add(blob_id="1", data=b"bytes", mime_type="m")
    document.parsed_metadata["tika"].parser_name = "tika"
    document.parsed_metadata["tika"].parser_version = "2"
    return document


def projected(*texts: str) -> PipeDoc:
    uses = uses_of([parse(text) for text in texts], VARIABLES).uses
    small = PipeDoc()
    copier(DOCUMENT, uses["doc"])(full_document(), small)
    return small


def test_only_the_fields_that_are_named_are_copied():
    expected = PipeDoc()
    expected.search_metadata.title = "title"

    assert projected('doc.search_metadata.title == "x"') == expected


def test_a_body_that_is_only_asked_for_is_not_copied():
    small = projected("has(doc.search_metadata.body)")

    assert small.search_metadata.HasField("body")
    assert small.search_metadata.body == ""


def test_a_body_that_is_read_is_copied():
    assert (
        projected("has(doc.search_metadata.body) && size(doc.search_metadata.body) > 1").search_metadata.body == "body"
    )


def test_an_element_of_a_list_keeps_what_its_variable_names():
    small = projected('doc.blob_bag.blobs.blob.exists(b, b.mime_type == "m" && has(b.data))')

    (blob,) = small.blob_bag.blobs.blob
    assert (blob.blob_id, blob.mime_type, blob.data, blob.HasField("data")) == ("", "m", b"", True)


@pytest.mark.parametrize(
    "text",
    [
        "doc.blob_bag.blobs.blob[0] == doc.blob_bag.blobs.blob[0]",
        "doc.blob_bag.blobs.blob.map(b, b) == []",
        "doc.blob_bag.blobs.blob.filter(b, has(b.data))[0].data == b''",
        "[doc.blob_bag] == []",
        "(true ? doc.blob_bag : doc.blob_bag).blobs.blob[0].data == b''",
    ],
)
def test_a_message_used_as_a_whole_is_copied_whole(text):
    assert projected(text).blob_bag.blobs.blob[0].data == b"bytes"


def test_a_map_of_messages_keeps_its_keys_and_what_is_named_inside():
    small = projected('doc.parsed_metadata.exists(k, doc.parsed_metadata[k].parser_name == "x")')

    assert dict(small.parsed_metadata)["tika"].parser_name == "tika"
    assert small.parsed_metadata["tika"].parser_version == ""


def test_a_size_needs_the_elements_but_not_what_is_in_them():
    small = projected("size(doc.blob_bag.blobs.blob) == 1")

    assert len(small.blob_bag.blobs.blob) == 1
    assert small.blob_bag.blobs.blob[0].data == b""


def test_a_variable_of_a_macro_hides_the_document():
    assert projected("[1].all(doc, doc == 1)") == PipeDoc()


def test_a_whole_document_is_copied_when_it_is_compared():
    assert projected("doc == document") == full_document()


def test_the_document_inside_the_stream_is_left_out_unless_it_is_named():
    stream = PipeStream(stream_id="s")
    stream.document.CopyFrom(full_document())
    uses = uses_of([parse('stream.stream_id == "s" && has(stream.document)')], VARIABLES).uses
    small = PipeStream()
    copier(STREAM, uses["stream"])(stream, small)

    assert small.HasField("document")
    assert small.document == PipeDoc()


def test_evaluation_costs_the_same_for_a_large_body_as_for_a_small_one():
    condition = 'doc.search_metadata.title == "title" && has(doc.search_metadata.body)'
    graph = Graph("g", "c", nodes=(Node("a", "c"), Node("b", "c")), edges=(Edge("e", "a", "b", condition=condition),))
    conditions = compile_conditions(graph, "cel-expr")

    def best_s(body: str) -> float:
        document = full_document()
        document.search_metadata.body = body
        document.blob_bag.blobs.blob[0].data = body.encode()
        best = float("inf")
        for _ in range(50):
            started = time.thread_time()
            assert conditions.matching_edges("a", conditions.activation(PipeStream(), document))
            best = min(best, time.thread_time() - started)
        return best

    # Taking ten megabytes along costs milliseconds, a hundred times the whole evaluation.
    assert best_s("x" * 10_000_000) < 10 * best_s("x" * 1_000)

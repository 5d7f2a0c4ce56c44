"""A document that is passed on leaves as it would from ``process_node``: the same bytes, objects and counts."""

from __future__ import annotations

import textwrap
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.engine.carry import Carrier
from pipestream.engine.intake import Arrival, Entrance, admit
from pipestream.engine.passing import find_passage
from pipestream.engine.services import open_services
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import PipeStream

NOW = 1_767_323_045.25
HEAD = """
    graph: g
    cluster: main
    max_hops: 5
    datasources:
      - {id: s, account: acme, entry: a}
      - {id: inline, account: acme, entry: a, persistence: {persist_pipedoc: false, max_inline_size_bytes: 60}}
      - {id: blobs, account: acme, entry: a, hydration: {keep_blobs_as_ref: true}}
    nodes:
      - {id: a, type: connector STORAGE}
      - {id: b, type: connector}
      - {id: c, type: connector}
    edges:
"""
ONE_EDGE = HEAD.replace(" STORAGE", "") + "      - {from: a, to: b}\n"
SEGMENTS = ONE_EDGE.replace("type: connector}", "type: connector, storage: segments}", 1)
OWN_TOPIC = ONE_EDGE.replace("to: b}", "to: b, topic: own-topic}")
DECIDED = HEAD.replace(" STORAGE", "") + (
    """      - {from: a, to: b, when: 'doc.doc_id.startsWith("d")'}\n"""
    """      - {from: a, to: c, when: 'has(doc.search_metadata.title) && document.search_metadata.title == "t"'}\n"""
)
GRAPHS = {"one edge": ONE_EDGE, "segments": SEGMENTS, "a topic of its own": OWN_TOPIC, "conditions": DECIDED}


class CountingMeter:
    """Keeps what it is told; times are left out."""

    def __init__(self):
        self.told = []

    def processed(self, queue, status, seconds):
        self.told.append((queue, status, len(seconds)))

    def sent(self, *told):
        self.told.append(told)

    def ended(self, count=1, *, succeeded):
        self.told.append((count, succeeded))


@pytest.fixture(scope="module")
def open_entrance():
    with ExitStack() as stack:

        @lru_cache
        def open_graph(text):
            graph = check_graph_text(textwrap.dedent(text).encode(), "g.yaml").require()
            return graph, stack.enter_context(open_services(built(graph), Settings(), ["a"]))

        def open_it(text, datasource_id="s"):
            graph, services = open_graph(text)
            services = replace(services, instance="host:1", now=lambda: NOW, meter=CountingMeter())
            return Entrance(graph, "a", "g", datasource_id), services

        yield open_it


texts = st.text(max_size=8)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "source_id": texts,
        "trace_id": texts,
        "context_params": st.dictionaries(texts, texts, max_size=3),
        "created_at": st.fixed_dictionaries({"seconds": st.integers(0, 2**31), "nanos": st.integers(0, 10**9 - 1)}),
        "last_processed_at": st.fixed_dictionaries({"seconds": st.integers(0, 2**31), "nanos": st.integers(1, 9)}),
        "history": st.lists(
            st.fixed_dictionaries({"hop_number": st.integers(0, 9), "node_id": texts, "graph_hash": texts}), max_size=2
        ),
        "stream_error": st.fixed_dictionaries({"error_message": texts}),
        "ingestion_config": st.sampled_from([{}, {"hydration_config": {"keep_blobs_as_ref": True}}]),
        "is_test": st.booleans(),
        "crawl_id": texts,
    },
)
documents = st.fixed_dictionaries(
    {"doc_id": st.sampled_from(["", "d1", "e2"])},
    optional={
        "search_metadata": st.fixed_dictionaries(
            {},
            optional={
                "title": st.sampled_from(["t", "other"]),
                "body": st.text(max_size=80),
                "metadata": st.dictionaries(texts, texts, max_size=3),
            },
        ),
        "blob_bag": st.just({"blob": {"data": b"0123456789", "filename": "f"}}),
    },
)
# A field that no version knows yet: number 500, the text "new".
unknown = st.sampled_from([b"", b"\xa2\x1f\x03new"])
streams = st.builds(
    lambda fields, more: PipeStream(**fields).SerializeToString() + more,
    st.fixed_dictionaries(
        {"document": documents, "metadata": metadata},
        optional={
            "hop_count": st.integers(0, 6),
            "processing_path": st.lists(st.sampled_from(["a", "b"]), max_size=3),
            "node_processing_config": st.just({"node_id": "n"}),
        },
    ),
    unknown,
)


def taken_in(value, entrance):
    """Return a stream as ``take_in`` does, and as it is on a node's topic."""
    stream = PipeStream.FromString(value)
    admit(stream, entrance, "origin")
    return stream


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("datasource_id", ["s", "inline", "blobs"])
@settings(max_examples=40, deadline=None)
@given(value=streams, hops=st.integers(0, 6), path=st.lists(st.sampled_from(["a", "b"]), max_size=3))
def test_what_is_passed_on_is_what_process_node_makes_of_it(open_entrance, name, datasource_id, value, hops, path):
    entrance, services = open_entrance(GRAPHS[name], datasource_id)
    arrival = Arrival(InputRecord(f"intake.{datasource_id}", 0, 7, 0, b"key", value), "origin")
    one, other = taken_in(value, entrance), taken_in(value, entrance)
    for stream in (one, other):
        # As on a node's topic, where streams have passed other nodes before.
        stream.hop_count = hops
        stream.processing_path[:] = path
    before = one.SerializeToString(deterministic=True)

    passed = find_passage(entrance, services).pass_on(arrival.record, one)

    if passed is None:
        assert one.SerializeToString(deterministic=True) == before
        return
    told, services.meter.told = services.meter.told, []
    assert passed == Carrier(entrance, "run", services, Settings()).carry(arrival, other)
    assert told == services.meter.told


def test_a_plain_document_is_passed_on(open_entrance):
    entrance, services = open_entrance(ONE_EDGE)
    value = PipeStream(document={"doc_id": "d1"}).SerializeToString()

    result = find_passage(entrance, services).pass_on(record_of(value), taken_in(value, entrance))

    assert [output.topic for output in result.outputs] == ["pipestream.main.b"]


def record_of(value, headers=()):
    return InputRecord("intake.s", 0, 7, 0, b"key", value, headers)


def test_a_traced_document_is_not_passed_on_because_its_span_is_recorded(open_entrance):
    entrance, services = open_entrance(ONE_EDGE)
    value = PipeStream(document={"doc_id": "d1"}).SerializeToString()
    record = record_of(value, ((TRACEPARENT, b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),))

    assert find_passage(entrance, services).pass_on(record, taken_in(value, entrance)) is None


@pytest.mark.parametrize(("doc_id", "title"), [("e", "other"), ("d", "t")], ids=["no edge matches", "two edges match"])
def test_a_document_that_does_not_take_one_edge_is_not_passed_on(open_entrance, doc_id, title):
    entrance, services = open_entrance(DECIDED)
    value = PipeStream(document={"doc_id": doc_id, "search_metadata": {"title": title}}).SerializeToString()

    assert find_passage(entrance, services).pass_on(record_of(value), taken_in(value, entrance)) is None


@pytest.mark.parametrize(
    "change",
    [
        ("{id: a, type: connector}", '{id: a, module: "python:pipestream_testing.steps:pass_on"}'),
        ("{id: a, type: connector}", "{id: a, type: connector, filters: ['true']}"),
        ("{id: a, type: connector}", "{id: a, type: connector, hydration: {keep_blobs_as_ref: true}}"),
        ("to: b}", "to: b, transport: grpc}"),
        ("to: b}", "to: b, max_hops: 2}"),
        ("to: b}", "to: far, cluster: east}"),
        ("to: b}", "to: b, when: 'stream.hop_count > 1'}"),
        ("to: b}", "to: b, when: 'doc.search_metadata.body.size() > 1'}"),
    ],
    ids=["module", "filter", "blobs", "fused", "limited edge", "bridge", "stream condition", "CEL condition"],
)
def test_a_node_that_does_more_passes_nothing_on(open_entrance, change):
    entrance, services = open_entrance(ONE_EDGE.replace(*change))

    assert find_passage(entrance, services) is None

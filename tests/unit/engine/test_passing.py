"""A document that is passed on leaves as it would from ``process_node``: the same stream, objects and counts."""

from __future__ import annotations

import textwrap
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.engine.carry import Carrier
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.inline_passing import find_inline_passage
from pipestream.engine.intake import Arrival, Entrance, admit
from pipestream.engine.passing import find_passage
from pipestream.engine.services import open_services
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.ids import record_origin
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings
from pipestream.telemetry.meter import NoMeter
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import PipeStream

HEAD = """
    graph: g
    cluster: main
    max_hops: 5
    datasources:
      - {id: s, account: acme, entry: a}
      - {id: inline, account: acme, entry: a, persistence: {persist_pipedoc: false, max_inline_size_bytes: 40}}
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


class CountingMeter(NoMeter):
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

        def open_it(text, datasource_id="s", now=1_767_323_045.25):
            graph, services = open_graph(text)
            services = replace(services, instance="host:1", now=lambda: now, meter=CountingMeter())
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
        "last_processed_at": st.just({"seconds": 1, "nanos": 2}),
        "history": st.lists(
            st.fixed_dictionaries({"hop_number": st.integers(0, 9), "node_id": texts, "graph_hash": texts}), max_size=2
        ),
        "stream_error": st.fixed_dictionaries({"error_message": texts}),
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
# What keeps a stream from being passed on: rules of its own, and a field that no version knows yet (number 500).
kept_back = [
    PipeStream(metadata={"ingestion_config": {"hydration_config": {"keep_blobs_as_ref": True}}}).SerializeToString(),
    PipeStream(node_processing_config={"node_id": "n"}).SerializeToString(),
    b"\xa2\x1f\x03new",
]
streams = st.builds(
    lambda fields, more: PipeStream(**fields).SerializeToString() + more,
    st.fixed_dictionaries(
        {"document": documents, "metadata": metadata},
        optional={
            "hop_count": st.integers(0, 6),
            "processing_path": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        },
    ),
    st.sampled_from([b""] * 9 + kept_back),
)
# Where the nanoseconds are 0, they must still replace those of the hop before.
times = st.sampled_from([1_767_323_045.25, 1_767_323_045.0])


def taken_in(value, entrance):
    """Return a stream as ``take_in`` does."""
    stream = PipeStream.FromString(value)
    admit(stream, entrance, ORIGIN)
    return stream


def record_of(value, headers=()):
    return InputRecord("intake.s", 0, 7, 0, b"key", value, headers)


ORIGIN = record_origin("topic-id", "intake.s", 0, 7)


def pass_inline(entrance, services, record):
    """Return the result of a record that is passed on as it is, or None."""
    passage = find_inline_passage(entrance, services, "topic-id")
    passed, left = passage.pass_on([record]) if passage else ((), [record])
    assert len(passed) + len(left) == 1
    return passed[0] if passed else None


def read(outputs):
    return [(each.topic, each.key, each.headers, PipeStream.FromString(each.value)) for each in outputs]


def check(entrance, services, value):
    arrival = Arrival(record_of(value), ORIGIN)
    one, other = taken_in(value, entrance), taken_in(value, entrance)
    before = one.SerializeToString(deterministic=True)

    inline = pass_inline(entrance, services, arrival.record)
    counted_inline, services.meter.told = services.meter.told, []
    passed = find_passage(entrance, services).pass_on(arrival.record, one)
    counted, services.meter.told = services.meter.told, []

    if passed is None:
        assert inline is None
        assert one.SerializeToString(deterministic=True) == before
        return
    expected = Carrier(entrance, "run", services, Settings()).carry(arrival, other)
    assert passed == expected
    assert counted == services.meter.told
    assert len(counted) == 3
    if inline is not None:
        assert inline.outputs[0].value.startswith(value)
        assert read(inline.outputs) == read(expected.outputs)
        assert replace(inline, outputs=[]) == replace(expected, outputs=[])
        assert sorted(map(str, counted_inline)) == sorted(map(str, told_of(inline, counted)))


def told_of(result, told):
    """Return what a meter is told of a result that has the values of another, but larger records."""
    return [(*each[:-1], [result.outputs[0].size_bytes]) if each[1] == "routing" else each for each in told]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("datasource_id", ["s", "inline", "blobs"])
@settings(max_examples=30, deadline=None)
@given(value=streams, now=times)
def test_of_an_intake_record_leaves_what_process_node_makes_of_it(open_entrance, name, datasource_id, value, now):
    entrance, services = open_entrance(GRAPHS[name], datasource_id, now)
    check(entrance, services, value)


@pytest.mark.parametrize("name", GRAPHS)
@settings(max_examples=60, deadline=None)
@given(
    value=streams,
    datasource_id=st.sampled_from(["s", "inline", "blobs", "unknown"]),
    is_live=st.booleans(),
    now=times,
)
def test_of_a_nodes_record_leaves_what_process_node_makes_of_it(
    open_entrance, name, value, datasource_id, is_live, now
):
    entrance, services = open_entrance(GRAPHS[name], "", now)
    at_node = PipeStream(stream_id="s1", current_node_id="a", cluster_id="main")
    at_node.metadata.account_id, at_node.metadata.datasource_id = "acme", datasource_id
    check(replace(entrance, is_live=is_live), services, value + at_node.SerializeToString())


def test_a_plain_document_is_passed_on(open_entrance):
    entrance, services = open_entrance(ONE_EDGE)
    value = PipeStream(document={"doc_id": "d1"}).SerializeToString()

    result = find_passage(entrance, services).pass_on(record_of(value), taken_in(value, entrance))

    assert [output.topic for output in result.outputs] == ["pipestream.main.b"]


def test_a_time_without_nanoseconds_replaces_one_that_had_some(open_entrance):
    entrance, services = open_entrance(ONE_EDGE, "inline", 1_767_323_045.0)
    before = {"last_processed_at": {"seconds": 1, "nanos": 2}}
    value = PipeStream(document={"doc_id": "d1"}, metadata=before).SerializeToString()

    result = find_passage(entrance, services).pass_on(record_of(value), taken_in(value, entrance))

    assert PipeStream.FromString(result.outputs[0].value).metadata.last_processed_at.nanos == 0
    assert pass_inline(entrance, services, record_of(value)) is None


@pytest.mark.parametrize("doc_id", ["", "d", "d" * 200, "é" * 30])
@pytest.mark.parametrize("hop_count", [0, 3])
def test_a_document_that_came_in_its_record_leaves_with_the_bytes_it_came_with(open_entrance, doc_id, hop_count):
    entrance, services = open_entrance(ONE_EDGE.replace("max_inline_size_bytes: 40", "max_inline_size_bytes: 4000"), "")
    value = PipeStream(
        document={"doc_id": doc_id},
        stream_id="one",
        current_node_id="a",
        hop_count=hop_count,
        metadata={"account_id": "acme", "datasource_id": "inline"},
    ).SerializeToString()

    result = pass_inline(entrance, services, record_of(value))

    expected = find_passage(entrance, services).pass_on(record_of(value), taken_in(value, entrance))
    assert result.outputs[0].value.startswith(value)
    assert read(result.outputs) == read(expected.outputs)


def test_the_time_in_the_history_is_that_of_the_document(open_entrance):
    entrance, services = open_entrance(ONE_EDGE, "inline")
    times = iter([100.5, 100.502, 101.5])
    passage = find_inline_passage(entrance, replace(services, now=lambda: next(times)), "topic-id")
    record = record_of(PipeStream(document={"doc_id": "d1"}).SerializeToString())

    passed, _ = passage.pass_on([record] * 3)

    found = [PipeStream.FromString(each.outputs[0].value).metadata.history[0].end_time for each in passed]
    assert [each.ToMilliseconds() for each in found] == [100_500, 100_500, 101_500], "exact to 5 ms"


@pytest.mark.parametrize(
    "change",
    [{"metadata": {"account_id": "other"}}, {"node_processing_config": {"node_id": "n"}}],
    ids=["of another account", "with rules of its own"],
)
def test_a_record_that_needs_more_is_left_and_those_around_it_are_passed_on(open_entrance, change):
    entrance, services = open_entrance(ONE_EDGE, "inline")
    plain = record_of(PipeStream(document={"doc_id": "d1"}).SerializeToString())
    other = record_of(PipeStream(document={"doc_id": "d2"}, **change).SerializeToString())

    passed, left = find_inline_passage(entrance, services, "topic-id").pass_on([plain, other, plain])

    assert [each.outputs[0].key for each in passed] == [b"d1", b"d1"]
    assert [record for record, _ in left] == [other]


@pytest.mark.parametrize(
    "value",
    [None, b"", b"no stream", PipeStream(document_ref={"doc_id": "d1"}).SerializeToString()],
    ids=["no value", "empty", "other bytes", "a reference"],
)
def test_of_records_without_a_document_none_is_passed_on(open_entrance, value):
    entrance, services = open_entrance(ONE_EDGE, "inline")
    plain = record_of(PipeStream(document={"doc_id": "d1"}).SerializeToString())

    assert find_inline_passage(entrance, services, "topic-id").pass_on([plain, record_of(value)]) is None
    assert not services.meter.told


@pytest.mark.parametrize("name", [TRACEPARENT, FOR_GRAPH])
def test_a_record_with_a_trace_or_for_a_graph_is_not_passed_on_as_it_is(open_entrance, name):
    entrance, services = open_entrance(ONE_EDGE, "inline")
    value = PipeStream(document={"doc_id": "d1"}).SerializeToString()

    assert pass_inline(entrance, services, record_of(value)) is not None
    assert pass_inline(entrance, services, record_of(value, ((name, b"value"),))) is None


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
    assert find_inline_passage(replace(entrance, datasource_id="inline"), services, "topic-id") is None

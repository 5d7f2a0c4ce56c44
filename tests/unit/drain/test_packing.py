from __future__ import annotations

import textwrap

import pytest

from pipestream.documents.fetch import fetch_document, fetch_documents
from pipestream.documents.references import place_of
from pipestream.drain.chunk import chunk_processor
from pipestream.engine.services import open_services
from pipestream.graph.flow import fused_with
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.partitions import partition_of
from pipestream.kafka.records import InputRecord
from pipestream.settings import Settings
from pipestream.topic_names import is_intake
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.made import make_task

GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - {id: a, type: connector, storage: segments}
      - {id: b, module: "python:pipestream_testing.steps:fail_on_bad", partitions: 4}
      - {id: c, type: connector}
    edges:
      - {from: a, to: b, when: '!doc.doc_id.startsWith("c")'}
      - {from: a, to: c, when: 'doc.doc_id.startsWith("c")'}
"""
AUTO = GRAPH.replace("storage: segments", "storage: auto")
OBJECTS = GRAPH.replace("storage: segments", "storage: objects")
ABSENT = GRAPH.replace(", storage: segments", "")
ABROAD = GRAPH.replace("{from: a, to: b,", "{from: a, to: x, cluster: other,")


def records_of(*streams, topic="intake.s"):
    return [
        InputRecord(topic, 0, offset, 0, stream.document.doc_id.encode(), stream.SerializeToString())
        for offset, stream in enumerate(streams)
    ]


def stream_of(doc_id, body="text"):
    stream = PipeStream()
    stream.document.doc_id = doc_id
    stream.document.search_metadata.title = doc_id
    stream.document.search_metadata.body = body
    return stream


@pytest.fixture
def process(store):
    """Process records in one chunk and store what is to be stored; return the outputs' streams and the stored keys."""

    def process(text, records):
        graph = check_graph_text(textwrap.dedent(text).encode(), "g.yaml").require()
        topic = records[0].topic
        task = make_task(
            topic, "a" if is_intake(topic) else topic.rpartition(".")[2], datasource_id="s" if is_intake(topic) else ""
        )
        with open_services(built(graph), Settings(), fused_with(graph, task.node_id)) as services:
            processor = chunk_processor(task, graph, services, store, Settings())
            result = processor.process(records)
            segments = result.pack(processor.packer)
            objects = [*result.objects.items(), *segments]
        store.put_many(objects)
        return result.outputs, [key for key, _ in objects]

    return process


def streams_of(outputs):
    return [PipeStream.FromString(output.value) for output in outputs]


def read(outputs, store):
    return [
        PipeDoc.FromString(data) for data in fetch_documents(store, [place_of(each) for each in streams_of(outputs)])
    ]


def test_the_documents_of_a_chunk_for_one_node_are_in_one_segment(process, store):
    names = [f"doc-{number}" for number in range(10)]

    outputs, keys = process(GRAPH, records_of(*map(stream_of, names)))

    (key,) = keys
    assert key.startswith("segments/acme/a/")
    assert [document.doc_id for document in read(outputs, store)] == names
    assert {place_of(each).key for each in streams_of(outputs)} == {key}


def test_a_reference_into_a_segment_says_all_that_one_to_an_object_says(process):
    records = records_of(*(stream_of(f"doc-{number}") for number in range(4)))

    packed, _ = process(GRAPH, records)
    alone, _ = process(OBJECTS, records)

    for ours, theirs in zip(streams_of(packed), streams_of(alone), strict=True):
        for field in ("object_key", "object_offset", "object_length"):
            ours.document_ref.ClearField(field)
        for stream in (ours, theirs):
            stream.metadata.ClearField("last_processed_at")
            for each in stream.metadata.history:
                for field in ("start_time", "end_time", "graph_hash"):
                    each.ClearField(field)
        assert ours == theirs


def test_each_node_that_documents_go_to_has_a_segment_of_its_own(process, store):
    names = [f"{letter}-{number}" for number in range(5) for letter in "bc"]

    outputs, keys = process(GRAPH, records_of(*map(stream_of, names)))

    assert len(keys) == 2
    by_topic = {output.topic: place_of(stream).key for output, stream in zip(outputs, streams_of(outputs), strict=True)}
    assert set(by_topic.values()) == set(keys)
    assert [document.doc_id for document in read(outputs, store)] == names


def test_documents_are_sorted_by_the_partition_that_they_go_to(process):
    outputs, _ = process(GRAPH, records_of(*(stream_of(f"doc-{number}") for number in range(40))))

    by_offset = sorted(zip(streams_of(outputs), outputs, strict=True), key=lambda pair: place_of(pair[0]).offset)
    partitions = [partition_of(output.key, 4) for _, output in by_offset]
    assert partitions == sorted(partitions)
    assert set(partitions) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "count", "is_packed"),
    [
        (GRAPH, 3, False),
        (GRAPH, 4, True),
        (AUTO, 31, False),
        (AUTO, 32, True),
        (OBJECTS, 40, False),
        (ABSENT, 40, False),
    ],
)
def test_a_few_documents_have_objects_of_their_own(process, store, text, count, is_packed):
    outputs, keys = process(text, records_of(*(stream_of(f"doc-{number}") for number in range(count))))

    assert [key.startswith("segments/") for key in keys] == ([True] if is_packed else [False] * count)
    assert len(read(outputs, store)) == count


def test_a_large_document_has_an_object_of_its_own(process, store):
    names = [f"doc-{number}" for number in range(6)]
    streams = [stream_of(name, "x" * (1024 * 1024) if name == "doc-2" else "text") for name in names]

    outputs, keys = process(GRAPH, records_of(*streams))

    assert sorted(key.partition("/")[0] for key in keys) == ["segments", "streams"]
    assert not place_of(streams_of(outputs)[2]).is_in_segment
    assert [document.doc_id for document in read(outputs, store)] == names


def test_a_long_chunk_has_several_segments(process, store):
    outputs, keys = process(GRAPH, records_of(*(stream_of(f"doc-{number}", "x" * 900_000) for number in range(14))))

    assert len(keys) == 2
    assert len(read(outputs, store)) == 14


def test_what_goes_to_another_cluster_or_ends_has_an_object_of_its_own(process):
    _, abroad = process(ABROAD, records_of(*(stream_of(f"doc-{number}") for number in range(8))))
    ends = GRAPH.replace("{id: c,", "{id: c, storage: segments,")
    arriving = [stream_of(f"c-{number}") for number in range(8)]
    for number, stream in enumerate(arriving):
        stream.stream_id, stream.current_node_id, stream.metadata.account_id = f"s-{number}", "c", "acme"
    _, ended = process(ends, records_of(*arriving, topic="pipestream.main.c"))

    assert {key.partition("/")[0] for key in (*abroad, *ended)} == {"streams"}
    assert len(abroad) == len(ended) == 8


def test_a_second_build_of_the_same_chunk_has_another_name(process):
    records = records_of(*(stream_of(f"doc-{number}") for number in range(4)))

    assert process(GRAPH, records)[1] != process(GRAPH, records)[1]


def test_the_next_node_reads_documents_from_their_segment(process, store):
    names = [f"doc-{number}" for number in range(9)]
    outputs, _ = process(GRAPH, records_of(*map(stream_of, names)))
    arrived = [
        InputRecord(output.topic, 0, offset, 0, output.key, output.value) for offset, output in enumerate(outputs)
    ]

    ended, keys = process(GRAPH, arrived)

    assert [document.doc_id for document in read(ended, store)] == names
    assert {key.partition("/")[0] for key in keys} == {"streams"}


def test_the_dead_letter_of_a_document_in_a_segment_has_an_object_of_its_own(process, store):
    outputs, (segment,) = process(GRAPH, records_of(*map(stream_of, ["doc-0", "bad", "doc-2", "doc-3"])))
    arrived = [
        InputRecord(output.topic, 0, offset, 0, output.key, output.value) for offset, output in enumerate(outputs)
    ]

    results, _ = process(GRAPH, arrived)

    (letter,) = [output for output in results if output.topic.startswith("dlq.")]
    store.delete(segment)
    place = place_of(PipeStream.FromString(letter.value))
    assert not place.is_in_segment
    assert PipeDoc.FromString(fetch_document(store, place)).doc_id == "bad"


def test_what_was_stored_alone_is_not_packed(process, store):
    records = records_of(*(stream_of(f"doc-{number}") for number in range(5)))
    graph = check_graph_text(textwrap.dedent(GRAPH).encode(), "g.yaml").require()
    task = make_task("intake.s", "a", datasource_id="s")
    with open_services(built(graph), Settings(), fused_with(graph, "a")) as services:
        processor = chunk_processor(task, graph, services, store, Settings())
        result = processor.process(records)
        store.put_many(list(result.objects.items()))
        result.drop_objects()

        assert result.pack(processor.packer) == []
    assert len(read(result.outputs, store)) == 5

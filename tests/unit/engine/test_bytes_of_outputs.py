"""The bytes that documents, references and dead letters have, for one case of each kind.

What was written by an earlier version is read by this one, and a retry must write what the try before it wrote. So a
change here is a change of the wire format. To make one, look at the difference, then write the file again:
``WRITE_GOLDEN=1 .venv/bin/pytest tests/unit/engine/test_bytes_of_outputs.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from pipestream.drain.chunk import chunk_processor
from pipestream.engine.services import open_services
from pipestream.errors import ProcessDied
from pipestream.graph.flow import fused_with
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.topic_names import is_intake
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.made import make_task

GOLDEN = Path(__file__).parents[2] / "data" / "bytes_of_outputs.json"
NOW = 1_767_323_045.25
# The lines of a trace move with the code.
TRACE = "__connect.errors.exception.stacktrace"
STEPS = "python:pipestream_testing.steps"
SETTINGS = Settings(retry_initial_ms=0, retry_max_ms=0)

PLAIN = f"""
    graph: g
    cluster: main
    datasources: [{{id: s, account: acme, entry: a}}]
    nodes:
      - {{id: a, module: "{STEPS}:pass_on"}}
      - {{id: b, module: "{STEPS}:fail_on_bad"}}
    edges: [{{from: a, to: b}}]
"""
FAILING = PLAIN.replace("pass_on", "fail_on_bad")
ERROR_END = FAILING.replace("nodes:", "error_end: failed\n    nodes:\n      - {id: failed, type: sink}")
NO_PAYLOAD = FAILING.replace('fail_on_bad"}', 'fail_on_bad", dead_letters: {include_payload: false}}')
FUSED = PLAIN.replace("to: b}", "to: b, transport: grpc}")
FAN_OUT = PLAIN.replace("pass_on", "split_in_three").replace("to: b}", "to: b}, {id: second, from: a, to: c}")
FAN_OUT = FAN_OUT.replace("edges:", f'  - {{id: c, module: "{STEPS}:pass_on"}}\n    edges:')
CYCLE = PLAIN.replace("to: b}", "to: b}, {from: b, to: b, max_hops: 9}")
BRIDGED = PLAIN.replace(
    "to: b}", "to: b}, {from: a, to: far, cluster: east}, {id: own, from: a, to: b, topic: own-topic}"
)
INTAKE, NODE = "intake.s", "pipestream.main.b"


def stream_of(doc_id, **fields):
    stream = PipeStream(**fields)
    stream.document.doc_id = doc_id
    stream.document.search_metadata.title = doc_id
    stream.document.search_metadata.metadata["z"] = "1"
    stream.document.search_metadata.metadata["a"] = "2"
    return stream


def at_b(doc_id, **fields):
    stream = stream_of(doc_id, stream_id="s1", current_node_id="b", cluster_id="main", **fields)
    stream.metadata.account_id = "acme"
    return stream


def reference_to(key, **fields):
    stream = PipeStream(**fields)
    stream.document_ref.doc_id = "stored"
    stream.document_ref.object_key = key
    return stream


STORED = "documents/acme/s/stored/one.pb"
REPLAYED = (
    ("pipestream.dead.replays", b"2"),
    ("pipestream.dead.first-failed-at", b"2026-01-01T00:00:00.000+00:00"),
    ("__connect.errors.topic", b"old"),
)
CASES = {
    "an edge": (PLAIN, INTAKE, "g", [stream_of("d1")], ()),
    "an edge, from a reference": (PLAIN, INTAKE, "g", [reference_to(STORED)], ()),
    "several edges and a bridge": (BRIDGED, INTAKE, "g", [stream_of("d1")], ()),
    "the happy-end": (PLAIN, NODE, "g", [at_b("d1")], ()),
    "the error-end": (ERROR_END, INTAKE, "g", [stream_of("bad"), stream_of("good")], ()),
    "a dead letter of intake": (FAILING, INTAKE, "g", [stream_of("bad")], ()),
    "a dead letter of a node": (FAILING, NODE, "g", [at_b("bad")], ()),
    "a dead letter behind a fused edge": (FUSED, INTAKE, "g", [stream_of("bad")], ()),
    "a dead letter that failed before": (FAILING, INTAKE, "g", [stream_of("bad")], REPLAYED),
    "a dead letter without its payload": (NO_PAYLOAD, INTAKE, "g", [stream_of("bad")], ()),
    "a dead letter without its payload, of a node": (NO_PAYLOAD, NODE, "g", [at_b("bad")], ()),
    "a fan-out": (FAN_OUT, INTAKE, "g", [stream_of("d1")], ()),
    "a cycle": (CYCLE, NODE, "g", [at_b("d1", processing_path=["a", "b"], hop_count=2)], ()),
    "a backfill of intake": (PLAIN, INTAKE, "g@again", [stream_of("d1")], ()),
    "a backfill of a node": (PLAIN, NODE, "g@again", [at_b("d1")], ()),
    "a backfill's dead letter": (FAILING, NODE, "g@again", [at_b("bad")], ()),
    "a backfill's dead letter without its payload": (NO_PAYLOAD, NODE, "g@again", [at_b("bad")], ()),
    "a record that is not a stream": (PLAIN, INTAKE, "g", [b"\xff\xfe", None, PipeStream()], ()),
    "a record on its way to another node": (PLAIN, NODE, "g", [at_b("d1", hop_count=1), stream_of("d2")], ()),
    "a record of another account": (PLAIN, INTAKE, "g", [reference_to("documents/other/s/d/x.pb")], ()),
    "a document that is missing": (PLAIN, INTAKE, "g", [reference_to("documents/acme/s/none/x.pb")], ()),
}


@pytest.fixture
def store(tmp_path):
    uri = (tmp_path / "objects").as_uri()
    with open_store(uri, Settings(store_uri=uri)) as store:
        store.put(STORED, stream_of("stored").document.SerializeToString(deterministic=True))
        yield store


@pytest.fixture
def processor_of(store):
    opened = []

    def make(text, topic, lane):
        graph = check_graph_text(textwrap.dedent(text).encode(), "g.yaml").require()
        node_id, datasource_id = ("a", "s") if is_intake(topic) else ("b", "")
        task = make_task(topic, node_id, datasource_id=datasource_id, lane=lane, is_live=lane == "g")
        opened.append(open_services(built(graph), SETTINGS, fused_with(graph, task.node_id)))
        services = replace(opened[-1].__enter__(), instance="host:1", now=lambda: NOW)
        return chunk_processor(task, graph, services, store, SETTINGS)

    yield make
    for services in opened:
        services.__exit__(None, None, None)


def records_of(topic, values, headers):
    data = [
        each if each is None or isinstance(each, bytes) else each.SerializeToString(deterministic=True)
        for each in values
    ]
    return [InputRecord(topic, 0, 7 + n, 0, b"key", each, (("own", b"kept"), *headers)) for n, each in enumerate(data)]


def without_trace(stream):
    technical = json.loads(stream.metadata.stream_error.technical_details)
    del technical["traceback"]
    stream.metadata.stream_error.technical_details = json.dumps(technical)
    return stream.SerializeToString(deterministic=True)


def readable(data, kind):
    """Return bytes as text that a reader can compare, and a hash that says whether they are the same."""
    if data is None:
        return None
    try:
        message = kind.FromString(data)
        if kind is PipeStream and message.metadata.HasField("stream_error"):
            data = without_trace(message)
        text = text_format.MessageToString(message, as_one_line=True)
    except DecodeError:
        text = repr(data)
    return {"text": text, "sha256": hashlib.sha256(data).hexdigest()}


def told(result, store):
    def text(value):
        return (value or b"").decode().replace(store.uri, "STORE")

    return {
        "outputs": [
            {
                "topic": output.topic,
                "key": text(output.key),
                "headers": [[name, text(value)] for name, value in output.headers if name != TRACE],
                "value": readable(output.value, PipeStream),
            }
            for output in result.outputs
        ],
        "objects": {key: readable(data, PipeDoc) for key, data in result.objects.items()},
    }


def check(name, found):
    kept = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n")
        return
    assert found == kept[name]


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_objects_have_the_bytes_they_always_had(processor_of, store, name):
    text, topic, lane, values, headers = CASES[name]

    result = processor_of(text, topic, lane).process(records_of(topic, values, headers))

    check(name, told(result, store))


@pytest.mark.parametrize("graph", [PLAIN, ERROR_END], ids=["without an error-end", "with an error-end"])
@pytest.mark.parametrize("topic", [INTAKE, NODE])
def test_what_is_given_up_has_the_bytes_it_always_had(processor_of, store, topic, graph, request):
    value = stream_of("d1") if topic == INTAKE else at_b("d1")
    (record,) = records_of(topic, [value], ())

    result = processor_of(graph, topic, "g").give_up(record, ProcessDied(["a"], 2), attempts=3)

    check(request.node.callspec.id, told(result, store))

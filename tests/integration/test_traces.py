from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipestream.kafka.records import header
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import PipeStream
from pipestream_testing.collector import run_collector

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def collector():
    with run_collector() as running:
        yield running


def drain_in_a_process(pipeline, config_file, collector, topic):
    environment = {**os.environ, "PIPESTREAM_CONFIG": str(config_file), "PIPESTREAM_OTLP_ENDPOINT": collector.address}
    command = [sys.executable, "-m", "pipestream.cli.main", "drain", "--graph", pipeline.graph_file, "--topic", topic]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)


def document(doc_id, trace_id=""):
    stream = PipeStream()
    stream.document.doc_id = stream.document.search_metadata.title = doc_id
    stream.metadata.trace_id = trace_id
    return stream


def test_one_trace_follows_a_document_through_two_runs(pipeline, topic, second, config_file, collector, unique):
    pipeline.send_streams(topic, [document("a", TRACE), document("b")])

    drain_in_a_process(pipeline, config_file, collector, topic)
    drain_in_a_process(pipeline, config_file, collector, second)

    traces = {}
    for each in collector.spans:
        traces.setdefault(each.trace_id, []).append(each)
    assert len(traces) == 2
    assert TRACE in traces
    for spans in traces.values():
        assert [each.name for each in spans if each.name.startswith("process")] == ["process first", "process second"]
        assert {each.name for each in spans} >= {"module first", "module second"}
        by_name = {each.name: each for each in spans}
        assert by_name["process second"].parent_id == by_name["process first"].span_id
    ends = pipeline.read(f"pipestream.{unique}.happy-end")
    for end in ends:
        assert end.stream.metadata.trace_id in traces
        assert end.stream.metadata.trace_id in header(end.record.headers, TRACEPARENT)
    assert len(ends) == 2


def test_without_a_collector_records_have_no_trace(pipeline, topic, second):
    pipeline.send_streams(topic, [document("a")])

    pipeline.drain(topic, "run")

    (record,) = pipeline.read(second)
    assert header(record.record.headers, TRACEPARENT) is None
    assert record.stream.metadata.trace_id == ""

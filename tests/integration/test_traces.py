from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import grpc
import httpx
import pytest

from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.kafka.records import header
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import PipeStream
from pipestream_testing.collector import run_collector
from pipestream_testing.engine_processes import EngineProcess
from pipestream_testing.modules import GrpcModuleServer
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess, apply_graph
from pipestream_testing.settings_file import write_settings
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, wait_drained
from pipestream_testing.waiting import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
CHAIN = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on"}
  - {id: third, module: "python:pipestream_testing.steps:pass_on"}
edges: [{from: first, to: second}, {from: second, to: third}]
"""

REMOTE = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes:
  - {id: first, module: "MODULE"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on", engine: "ENGINE"}
edges: [{from: first, to: second, transport: grpc}]
"""


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


@pytest.fixture
def chain(settings, unique, tmp_path, collector):
    """Three nodes with topics between them; every process that works on it exports its spans."""
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN.replace("UNIQUE", unique))
    quick = {"reconcile_s": 0.3, "stream_follow_s": 0.3, "stream_record_s": 1.0, "engine_name": unique}
    made = Pipeline(settings.model_copy(update={"otlp_endpoint": collector.address, **quick}), file)
    made.create_topics()
    return made


def hand_over(address, datasource_id):
    request = IntakeHandoffRequest(datasource_id=datasource_id)
    request.stream.document.doc_id = "a"
    with grpc.insecure_channel(address) as channel:
        call = EngineV1ServiceStub(channel).IntakeHandoff
        # The engine follows applied graphs: it may not have seen this one yet.
        wait_until(
            lambda: call(request, metadata=((TRACEPARENT, PARENT),), timeout=120, wait_for_ready=True).accepted,
            "the engine does not accept the document",
            timeout_s=120,
        )


def test_one_trace_follows_a_document_from_an_engine_over_a_sidecar_to_a_batch(
    chain, tmp_path, config_file, collector, unique
):
    second, third = f"pipestream.{unique}.second", f"pipestream.{unique}.third"
    apply_streaming(chain, second)
    engine, sidecar = EngineProcess(chain.settings, tmp_path, workers=1), SidecarProcess(chain, "sidecar")
    engine.start()
    try:
        engine.wait_ready()
        hand_over(engine.address, unique)
        wait_drained(chain, [second])
        assert engine.stop() == 0, engine.log
        assert sidecar.end() == 0, sidecar.log
    finally:
        with suppress(ProcessLookupError):  # it has ended
            engine.kill()
        sidecar.kill()
    write_settings(config_file, chain.settings)
    drain_in_a_process(chain, config_file, collector, third)

    assert {each.trace_id for each in collector.spans} == {TRACE}
    assert collector.way_from(CALLER) == ["process first", "process second", "process third"]
    (end,) = chain.read(f"pipestream.{unique}.happy-end")
    assert end.stream.metadata.trace_id == TRACE


def test_one_trace_follows_a_document_that_a_sidecar_hands_to_an_engine(chain, tmp_path, collector, unique):
    topics = [f"intake.{unique}", f"pipestream.{unique}.second"]
    apply_streaming(chain, *topics)
    chain.send_streams(topics[0], [document("a")], headers=((TRACEPARENT, PARENT.encode()),))
    engine = EngineProcess(chain.settings, tmp_path, workers=1)
    sidecar = SidecarProcess(chain, "sidecar", "--engine", engine.address)
    engine.start()
    try:
        wait_drained(chain, topics)
        assert sidecar.end() == 0, sidecar.log
        assert engine.stop() == 0, engine.log
    finally:
        sidecar.kill()
        with suppress(ProcessLookupError):  # it has ended
            engine.kill()

    assert {each.trace_id for each in collector.spans} == {TRACE}
    # Of each node, the span of the sidecar and below it that of the engine.
    assert collector.way_from(CALLER) == ["process first"] * 2 + ["process second"] * 2
    (record,) = chain.read(f"pipestream.{unique}.third")
    assert record.stream.metadata.trace_id == TRACE


@pytest.mark.parametrize("sent", ["the header of its record", "its metadata"])
def test_a_trace_goes_on_through_grpc_modules_and_remote_engines_without_a_collector(live, unique, tmp_path, sent):
    calls = []

    def answer(request, context):
        calls.append(dict(context.invocation_metadata()))
        return GrpcModuleServer.answer(request.document)

    file = tmp_path / "remote.yaml"
    with GrpcModuleServer(answer) as module:
        file.write_text(REMOTE.replace("UNIQUE", unique).replace("MODULE", module.spec).replace("ENGINE", live.address))
        remote = Pipeline(live.settings, file)
        live.wait_for(live.apply(file.read_text()))
        if sent == "its metadata":
            remote.send_streams(f"intake.{unique}", [document("a", TRACE)])
        else:
            remote.send_streams(f"intake.{unique}", [document("a")], headers=((TRACEPARENT, PARENT.encode()),))
        remote.drain(f"intake.{unique}", "run")

    (end,) = remote.read(f"pipestream.{unique}.happy-end")
    assert end.stream.metadata.trace_id == TRACE
    assert TRACE in header(end.record.headers, TRACEPARENT)
    assert TRACE in calls[0][TRACEPARENT]


def test_one_trace_follows_an_upload_over_the_outbox_and_intake_to_its_end(chain, tmp_path, collector, unique):
    topics = [f"intake.{unique}", f"pipestream.{unique}.second"]
    apply_streaming(chain, *topics)
    with RepositoryProcess(chain, tmp_path / "repository") as repository:
        answer = httpx.post(
            f"{repository.http}/uploads/{unique}",
            content=b"text",
            headers={"X-Document-Id": "a", TRACEPARENT: PARENT},
            timeout=120,
        )
        assert answer.status_code == 201, answer.text
        assert repository.stop() == 0
    (record,) = chain.read(topics[0])
    assert TRACE in header(record.record.headers, TRACEPARENT)
    sidecar = SidecarProcess(chain, "sidecar")
    try:
        wait_drained(chain, topics)
        assert sidecar.end() == 0, sidecar.log
    finally:
        sidecar.kill()

    assert {each.trace_id for each in collector.spans} == {TRACE}
    assert collector.way_from(CALLER) == [f"upload {unique}", "process first", "process second"]


def test_an_upload_passes_a_trace_on_without_a_collector_of_its_own(settings, chain, tmp_path, unique):
    chain.settings = settings
    apply_graph(chain)
    with RepositoryProcess(chain, tmp_path / "repository") as repository:
        for number, parent in enumerate((PARENT, "nonsense")):
            headers = {"X-Document-Id": str(number), TRACEPARENT: parent}
            assert (
                httpx.post(
                    f"{repository.http}/uploads/{unique}", content=b"text", headers=headers, timeout=120
                ).status_code
                == 201
            )
        assert repository.stop() == 0

    traces = [header(each.record.headers, TRACEPARENT) for each in chain.read(f"intake.{unique}")]
    assert sorted(traces, key=str) == [PARENT, None]

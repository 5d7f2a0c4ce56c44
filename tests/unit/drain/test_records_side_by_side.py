"""A node's ``concurrency``, with every kind of module, and with a node in another engine."""

from __future__ import annotations

import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc import StatusCode

from pipestream.drain.chunk import chunk_processor
from pipestream.drain.concurrency import Workers, limit_calls, widest
from pipestream.engine.services import open_services
from pipestream.errors import GraphInvalid, StoreUnavailable
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeResponse
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import (
    EngineV1ServiceServicer,
    add_EngineV1ServiceServicer_to_server,
)
from pipestream.graph.flow import fused_with
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built, from_kept, to_binary
from pipestream.kafka.records import InputRecord
from pipestream.modules.declare import declare_module
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.settings import Settings
from pipestream.wire import PipeStream
from pipestream_testing.made import make_task
from pipestream_testing.modules import GrpcModuleServer, SocketModuleServer

GRAPH = """
    graph: g
    cluster: main
    datasources: [{id: s, account: acme, entry: a}]
    nodes:
      - {id: a, module: "MODULE", concurrency: 8}
      - {id: b, module: "python:pipestream_testing.steps:pass_on"}
    edges: [{from: a, to: b}]
"""


def graph_of(module, text=GRAPH, *, look_up=False):
    return check_graph_text(textwrap.dedent(text).replace("MODULE", module).encode(), "g.yaml", look_up=look_up)


def record_of(number):
    stream = PipeStream()
    stream.document.doc_id = f"d{number:02}"
    return InputRecord("intake.s", 0, number, 0, stream.document.doc_id.encode(), stream.SerializeToString())


class Together:
    """Counts how many callers are inside at once, and keeps each inside until as many are there as are expected."""

    def __init__(self, expected):
        self._expected, self._inside = expected, 0
        self._changed = threading.Condition()
        self.most = 0

    def meet(self):
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._expected, 60)
        time.sleep(0.001)
        with self._changed:
            self._inside -= 1


together = Together(3)


@declare_module(is_concurrent=True)
def concurrent(document, _context):
    together.meet()
    return document


def alone(document, _context):
    return document


@pytest.fixture
def process(store):
    """Process records at the first node of a graph as a drain does."""

    def run(graph, records, settings):
        task = make_task("intake.s", "a", datasource_id="s")
        nodes = fused_with(graph, "a")
        width = widest(graph, nodes)
        with open_services(built(graph), settings, nodes, store) as opened, ThreadPoolExecutor(width) as pool:
            services = limit_calls(opened, graph, nodes)
            return chunk_processor(task, graph, services, store, settings, pool, width).process(records)

    return run


def ids(result):
    return [output.key.decode() for output in result.outputs]


def test_a_grpc_module_gets_documents_side_by_side_and_one_that_fails_stays_alone_in_its_place(process):
    meeting = Together(8)

    def handle(request, context):
        meeting.meet()
        if request.document.doc_id == "d13":
            context.abort(StatusCode.INVALID_ARGUMENT, "bad document")
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(handle) as server:
        graph = graph_of(server.spec).require()
        result = process(graph, [record_of(number) for number in range(24)], Settings())

    assert meeting.most == 8
    assert ids(result) == [f"d{number:02}" for number in range(24)]
    assert [output.topic for output in result.outputs].index("dlq.intake.s") == 13
    assert (result.failed, result.tally(0).records, result.tally(0).dead_letters) == (1, 24, 1)


def test_the_concurrency_of_a_node_wins_over_the_setting_for_its_module(process):
    meeting = Together(8)

    def handle(request, _context):
        meeting.meet()
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(handle) as server:
        graph = graph_of(server.spec).require()
        result = process(graph, [record_of(number) for number in range(24)], Settings(module_concurrency=2))

    assert meeting.most == 8
    assert (result.failed, ids(result)) == (0, [f"d{number:02}" for number in range(24)])


def test_a_call_that_fails_for_a_moment_is_tried_again_by_itself(process):
    failed = []

    def handle(request, context):
        if request.document.doc_id == "d05" and not failed:
            failed.append(request.document.doc_id)
            context.abort(StatusCode.UNAVAILABLE, "a moment")
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(handle) as server:
        graph = graph_of(server.spec).require()
        result = process(graph, [record_of(number) for number in range(16)], Settings())

    assert failed == ["d05"]
    assert (result.failed, ids(result)) == (0, [f"d{number:02}" for number in range(16)])


def test_a_declared_python_function_runs_side_by_side(process):
    module = f"python:{__name__}:concurrent"
    graph = graph_of(module).require()

    result = process(graph, [record_of(number) for number in range(9)], Settings())

    assert 3 <= together.most <= 8
    assert ids(result) == [f"d{number:02}" for number in range(9)]


def test_a_program_behind_a_socket_gets_documents_side_by_side(process, tmp_path):
    meeting = Together(8)

    def handle(request):
        meeting.meet()
        return request

    with SocketModuleServer(tmp_path / "m.sock", handle) as server:
        graph = graph_of(server.spec).require()
        result = process(graph, [record_of(number) for number in range(24)], Settings())

    assert meeting.most == 8
    assert (result.failed, ids(result)) == (0, [f"d{number:02}" for number in range(24)])


def test_the_processes_of_a_function_get_documents_side_by_side(process, tmp_path):
    text = GRAPH.replace("concurrency: 8", f"concurrency: 3, config: {{folder: {tmp_path}, parties: 3}}")
    graph = graph_of("runtime:pipestream_testing.modules:meeting", text).require()

    result = process(graph, [record_of(number) for number in range(6)], Settings(runtime_processes=3))

    assert (result.failed, ids(result)) == (0, [f"d{number:02}" for number in range(6)])


class MeetingEngine(EngineV1ServiceServicer):
    """Takes streams when as many have come together as are expected, and keeps the key of each call."""

    def __init__(self, expected):
        self.meeting = Together(expected)
        self.taken = []

    def ProcessNode(self, request, context):  # noqa: N802 - the protocol's name
        self.meeting.meet()
        self.taken.append((request.stream.document.doc_id, dict(context.invocation_metadata())[IDEMPOTENCY_KEY]))
        return ProcessNodeResponse(success=True)


def test_another_engine_gets_documents_side_by_side_and_each_once(process):
    engine = MeetingEngine(8)
    with ThreadPoolExecutor(16) as pool:
        server = grpc.server(pool)
        add_EngineV1ServiceServicer_to_server(engine, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        text = GRAPH.replace("concurrency: 8", f'concurrency: 8, engine: "127.0.0.1:{port}"')
        graph = graph_of("python:pipestream_testing.steps:pass_on", text).require()

        result = process(graph, [record_of(number) for number in range(24)], Settings())
        server.stop(None).wait()

    assert engine.meeting.most == 8
    assert sorted(doc_id for doc_id, _ in engine.taken) == [f"d{number:02}" for number in range(24)]
    assert len({key for _, key in engine.taken}) == 24
    assert (result.failed, ids(result), result.tally(0).records) == (0, [], 24)


def test_a_python_function_that_does_not_declare_it_is_refused_with_the_way_out():
    with pytest.raises(GraphInvalid, match="is_concurrent=True"):
        graph_of(f"python:{__name__}:alone", look_up=True).require()


def test_the_concurrency_of_a_node_survives_the_wire():
    graph = graph_of("grpc:127.0.0.1:1").require()
    assert from_kept(to_binary(graph), source="test").node_by_id["a"].concurrency == 8


def test_an_error_that_is_no_documents_fault_ends_the_chunk_and_no_further_item_begins():
    begun = []

    def work(item):
        begun.append(item)
        if item == 2:
            raise StoreUnavailable("gone")
        return item

    with ThreadPoolExecutor(1) as pool, pytest.raises(StoreUnavailable):
        Workers(pool, 1).begin(work, range(100)).wait()
    assert begun == [0, 1, 2]


def test_results_come_in_the_order_of_the_items():
    def work(item):
        time.sleep(0.001 * (item % 3))
        return item * 2

    with ThreadPoolExecutor(4) as pool:
        workers = Workers(pool, 4)
        assert workers.begin(work, range(40)).wait() == [item * 2 for item in range(40)]
        assert workers.begin(work, []).wait() == []

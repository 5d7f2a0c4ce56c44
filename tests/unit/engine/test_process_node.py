from __future__ import annotations

import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import grpc
import pytest

from pipestream.engine.dead_letter_record import dead_letter
from pipestream.engine.follow import follow, retry_policy
from pipestream.engine.graph_conditions import compile_conditions
from pipestream.engine.process import Outcome, Services, process_node
from pipestream.engine.remote import RemoteEngine
from pipestream.errors import (
    Concern,
    ConditionError,
    HopsExceeded,
    ModuleFailed,
    ModuleTimeout,
    ModuleUnavailable,
    RecordInvalid,
    TimeBudgetSpent,
)
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeResponse
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import (
    EngineV1ServiceServicer,
    add_EngineV1ServiceServicer_to_server,
)
from pipestream.graph.model import DeadLetterPolicy, Edge, Graph, Node, NodeType, Transport
from pipestream.graph.proto import graph_hash
from pipestream.kafka.records import InputRecord, header
from pipestream.modules.module import Answer, HopStatus
from pipestream.settings import Settings
from pipestream.wire import LogEntry, PipeDoc, PipeStream

SETTINGS = Settings(retry_initial_ms=0, retry_max_ms=0)
HAPPY_END = Node("happy-end", "main", node_type=NodeType.SINK)


def make_graph(nodes, edges=(), **rest):
    return Graph("g", "main", (*nodes, HAPPY_END), tuple(edges), **rest)


def node(node_id, module="", **rest):
    return Node(node_id, "main", module=module, **rest)


def edge(start, to, condition="", **rest):
    return Edge(rest.pop("edge_id", f"{start}--{to}"), start, to, condition=condition, **rest)


def stream_at(node_id, title="a", **rest):
    stream = PipeStream(stream_id="s1", current_node_id=node_id, cluster_id="main", **rest)
    stream.metadata.account_id = "acme"
    stream.document.doc_id = "d1"
    stream.document.search_metadata.title = title
    return stream


class ScriptedModule:
    """Answers with whatever the script says for its node; an exception in it is raised."""

    def __init__(self, script, calls):
        self.script, self.calls = script, calls

    def process(self, document, context):
        self.calls.append(context)
        answer = self.script(document, context)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        pass


@pytest.fixture
def calls():
    return []


@pytest.fixture
def remote_engine():
    """A real engine on loopback that keeps what it gets; an error or a status in ``answers`` is its next answer."""

    class Servicer(EngineV1ServiceServicer):
        taken: ClassVar[list] = []
        answers: ClassVar[list] = []

        def ProcessNode(self, request, context):  # noqa: N802 - the service's name for it
            self.taken.append((request.stream, dict(context.invocation_metadata())["pipestream-idempotency-key"]))
            error = self.answers.pop() if self.answers else ""
            if isinstance(error, grpc.StatusCode):
                context.abort(error, "not now")
            return ProcessNodeResponse(success=not error, error_message=error)

    server = grpc.server(ThreadPoolExecutor(1))
    add_EngineV1ServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    engine = RemoteEngine(f"127.0.0.1:{port}")

    def engine_of(_node):
        return engine

    engine_of.servicer = Servicer
    yield engine_of
    engine.close()
    server.stop(None).wait()


@pytest.fixture
def services(calls, remote_engine):
    def make(graph, **scripts):
        def module_of(node):
            return ScriptedModule(scripts.get(node.node_id, lambda document, _context: [document]), calls)

        conditions = compile_conditions(graph, "cel-expr")
        version = graph_hash(graph)
        return Services(conditions, module_of, remote_engine, "cel-expr", 30.0, version, "host:1", lambda: 1_000.0)

    return make


def titles(emissions):
    return [(e.to_node_id, e.stream.document.search_metadata.title) for e in emissions]


def test_one_document_follows_every_matching_edge_in_order_of_priority(services):
    graph = make_graph(
        [node("a"), node("b"), node("c"), node("d")],
        [
            edge("a", "d", 'doc.search_metadata.title == "other"'),
            edge("a", "c", priority=9),
            edge("a", "b", 'doc.search_metadata.title == "a"', priority=1),
        ],
    )

    emissions = process_node(stream_at("a"), graph, services(graph))

    assert [e.to_node_id for e in emissions] == ["b", "c"]
    assert {e.outcome for e in emissions} == {Outcome.EDGE}


def test_branches_that_may_meet_again_have_ids_of_their_own(services):
    graph = make_graph([node("a"), node("b"), node("c")], [edge("a", "b"), edge("a", "c")])

    first, second = process_node(stream_at("a"), graph, services(graph))
    again = process_node(stream_at("a"), graph, services(graph))

    assert first.stream.stream_id == "s1"
    assert second.stream.stream_id != "s1"
    assert second.stream.stream_id == again[1].stream.stream_id


def test_several_documents_fan_out_and_the_first_keeps_the_stream(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b")])

    def split(document, _context):
        return [PipeDoc(doc_id=f"{document.doc_id}-{n}") for n in range(3)]

    emissions = process_node(stream_at("a"), graph, services(graph, a=split))

    assert [e.stream.document.doc_id for e in emissions] == ["d1-0", "d1-1", "d1-2"]
    assert emissions[0].stream.stream_id == "s1"
    assert len({e.stream.stream_id for e in emissions}) == 3


def test_no_document_ends_the_route_happily_with_the_original(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b")])

    (emission,) = process_node(stream_at("a"), graph, services(graph, a=lambda *_: []))

    assert (emission.outcome, emission.to_node_id) == (Outcome.HAPPY_END, "happy-end")
    assert emission.stream.document.doc_id == "d1"


@pytest.mark.parametrize("edges", [[], [edge("a", "b", "false")]], ids=["no edges", "no edge matches"])
def test_the_end_of_the_route_is_a_happy_end(services, edges):
    graph = make_graph([node("a"), node("b")], edges)

    (emission,) = process_node(stream_at("a"), graph, services(graph))

    assert emission.outcome is Outcome.HAPPY_END


def test_an_end_node_calls_its_module_and_routes_nothing(services, calls):
    graph = make_graph([node("a", node_type=NodeType.SINK)])

    assert process_node(stream_at("a"), graph, services(graph)) == []
    assert [context.node_id for context in calls] == ["a"]


def test_a_document_that_fails_a_filter_skips_the_module_and_is_still_routed(services, calls):
    graph = make_graph([node("a", filters=('doc.search_metadata.title == "b"',)), node("b")], [edge("a", "b")])

    (emission,) = process_node(stream_at("a"), graph, services(graph))

    assert emission.to_node_id == "b"
    assert calls == []


def test_a_hop_is_recorded_in_path_history_and_count(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b")])

    (emission,) = process_node(stream_at("a", hop_count=2, processing_path=["x", "y"]), graph, services(graph))

    assert emission.stream.hop_count == 3
    assert list(emission.stream.processing_path) == ["x", "y", "a"]
    (hop,) = emission.stream.metadata.history
    assert (hop.hop_number, hop.node_id, hop.status) == (3, "a", "SUCCESS")
    assert hop.start_time.seconds == 1_000


def test_a_hop_names_its_graph_its_version_the_module_and_the_instance(services):
    graph = make_graph([node("a", "python:some.module:step"), node("b")], [edge("a", "b")])

    (emission,) = process_node(stream_at("a"), graph, services(graph))

    (hop,) = emission.stream.metadata.history
    assert (hop.graph_id, hop.graph_hash) == ("g", graph_hash(graph)[:16])
    assert hop.service_instance_id == "host:1"
    assert (hop.module_id, hop.document_id, hop.stream_id) == ("python:some.module:step", "d1", "s1")


def test_a_document_that_a_filter_passes_over_has_a_skipped_hop(services):
    graph = make_graph([node("a", filters=('doc.search_metadata.title == "b"',)), node("b")], [edge("a", "b")])

    (emission,) = process_node(stream_at("a"), graph, services(graph))

    (hop,) = emission.stream.metadata.history
    assert (hop.hop_number, hop.node_id, hop.status) == (1, "a", "SKIPPED")


def test_a_partial_result_continues_and_its_hop_keeps_details_and_log(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b")])
    entries = [LogEntry(message=f"page {number} is blank") for number in range(60)]

    def half(document, _context):
        return Answer([document], HopStatus.PARTIAL, ("page 3", "page 7"), {"pages": 2}, entries)

    (emission,) = process_node(stream_at("a"), graph, services(graph, a=half))

    (hop,) = emission.stream.metadata.history
    assert (emission.to_node_id, hop.status) == ("b", "PARTIAL")
    assert (hop.error_info.error_code, hop.error_info.error_message) == ("PARTIAL", "page 3; page 7")
    assert json.loads(hop.error_info.technical_details) == {"details": {"pages": 2}}
    assert hop.log_entries[0].message == "page 0 is blank"
    assert len(hop.log_entries) == 51
    assert hop.log_entries[-1].message == "10 more entries are left out"


@pytest.mark.parametrize("as_branches", [False, True], ids=["several documents", "several edges"])
def test_a_child_names_its_parent_in_its_last_hop(services, as_branches):
    edges = [edge("a", "b"), edge("a", "c")] if as_branches else [edge("a", "b")]
    graph = make_graph([node("a"), node("b"), node("c")], edges)
    documents = [PipeDoc(doc_id=f"d1-{n}") for n in range(1 if as_branches else 2)]

    _, child = process_node(stream_at("a"), graph, services(graph, a=lambda *_: documents))

    assert child.stream.stream_id != "s1"
    assert child.stream.metadata.history[-1].stream_id == "s1"
    (grown,) = process_node(child.stream, graph, services(graph))
    assert [hop.stream_id for hop in grown.stream.metadata.history] == ["s1", child.stream.stream_id]


def test_a_trace_id_is_kept_by_every_child_and_passed_to_modules(services, calls):
    graph = make_graph([node("a"), node("b"), node("c")], [edge("a", "b", transport=Transport.GRPC), edge("a", "c")])
    stream = stream_at("a")
    stream.metadata.trace_id = "trace-1"

    emissions = follow(stream, graph, services(graph, b=lambda *_: ModuleFailed("no")), SETTINGS)

    assert [(e.outcome, e.stream.metadata.trace_id) for e in emissions] == [
        (Outcome.EDGE, "trace-1"),
        (Outcome.DEAD_LETTER, "trace-1"),
    ]
    assert {context.trace_id for context in calls} == {"trace-1"}


def test_the_stream_that_came_in_is_left_as_it_was(services):
    graph = make_graph([node("a"), node("b"), node("c")], [edge("a", "b"), edge("a", "c")])
    stream = stream_at("a")
    before = stream.SerializeToString(deterministic=True)

    process_node(stream, graph, services(graph))

    assert stream.SerializeToString(deterministic=True) == before


def test_a_repeat_of_the_same_work_has_the_same_idempotency_key(services, calls):
    graph = make_graph([node("a")])

    process_node(stream_at("a"), graph, services(graph), attempt=1)
    process_node(stream_at("a"), graph, services(graph), attempt=2)
    process_node(stream_at("a", hop_count=1), graph, services(graph))

    first, second, later = [context.idempotency_key for context in calls]
    assert first == second != later


def test_a_condition_that_errs_fails_the_document_with_the_edges_id(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b", 'doc.search_metadata.metadata["missing"] == "x"')])

    with pytest.raises(ConditionError) as caught:
        process_node(stream_at("a"), graph, services(graph))

    assert caught.value.edge_id == "a--b"


def test_an_edge_may_be_taken_only_as_often_as_it_allows(services):
    graph = make_graph([node("a")], [edge("a", "a", max_hops=2)])

    process_node(stream_at("a", hop_count=1, processing_path=["a"]), graph, services(graph))
    with pytest.raises(HopsExceeded, match="a--a was taken 2 times"):
        process_node(stream_at("a", hop_count=2, processing_path=["a", "a"]), graph, services(graph))


def test_no_document_hops_more_often_than_the_graph_allows(services):
    graph = make_graph([node("a")], max_hops=3)

    with pytest.raises(HopsExceeded, match="3 hops"):
        process_node(stream_at("a", hop_count=3), graph, services(graph))


def test_a_record_for_an_unknown_node_is_refused_by_name(services):
    graph = make_graph([node("a")])

    with pytest.raises(RecordInvalid, match="no node 'gone'"):
        process_node(stream_at("gone"), graph, services(graph))


def test_a_fused_edge_runs_the_next_node_in_the_same_task(services, calls):
    graph = make_graph([node("a"), node("b"), node("c")], [edge("a", "b", transport=Transport.GRPC), edge("b", "c")])

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert [context.node_id for context in calls] == ["a", "b"]
    assert (emission.to_node_id, emission.node_id) == ("c", "b")
    assert list(emission.stream.processing_path) == ["a", "b"]


def test_a_node_in_a_remote_engine_is_processed_there_and_nothing_comes_back(services, remote_engine, calls):
    graph = make_graph([node("a"), node("b", engine="elsewhere:1")], [edge("a", "b", transport=Transport.GRPC)])

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert emission.outcome is Outcome.HANDED_OVER
    ((stream, key),) = remote_engine.servicer.taken
    assert (stream.current_node_id, stream.document.doc_id, key) == ("b", "d1", "s1/b/1")
    assert [context.node_id for context in calls] == ["a"]


def test_an_error_of_a_remote_engine_fails_the_document(services, remote_engine):
    graph = make_graph([node("a", engine="elsewhere:1")])
    remote_engine.servicer.answers.append("no room")

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert emission.outcome is Outcome.DEAD_LETTER
    assert "no room" in str(emission.error)


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    ],
)
def test_a_remote_engine_that_cannot_take_a_document_now_is_asked_again(services, remote_engine, code):
    graph = make_graph([node("a", engine="elsewhere:1")])
    remote_engine.servicer.answers.append(code)

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert emission.outcome is Outcome.HANDED_OVER


def test_a_remote_engine_that_refuses_a_document_is_not_asked_again(services, remote_engine):
    graph = make_graph([node("a", engine="elsewhere:1")])
    remote_engine.servicer.answers.append(grpc.StatusCode.INVALID_ARGUMENT)

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert (emission.outcome, emission.attempts) == (Outcome.DEAD_LETTER, 1)
    assert "INVALID_ARGUMENT: not now" in str(emission.error)


def test_a_document_rests_in_the_topic_of_an_end_without_a_module_even_behind_a_fused_edge(services):
    graph = make_graph([node("a"), node("end", node_type=NodeType.SINK)], [edge("a", "end", transport=Transport.GRPC)])

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert (emission.outcome, emission.to_node_id) == (Outcome.EDGE, "end")


def test_a_fused_loop_ends_at_the_hop_limit_as_a_dead_letter(services):
    graph = make_graph([node("a")], [edge("a", "a", transport=Transport.GRPC, max_hops=3)])

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert emission.outcome is Outcome.DEAD_LETTER
    assert isinstance(emission.error, HopsExceeded)


def test_a_failure_behind_a_fused_edge_leaves_the_siblings_alone(services):
    graph = make_graph([node("a"), node("b"), node("c")], [edge("a", "b", transport=Transport.GRPC), edge("a", "c")])

    emissions = follow(stream_at("a"), graph, services(graph, b=lambda *_: ModuleFailed("no")), SETTINGS)

    assert [(e.outcome, e.node_id) for e in emissions] == [(Outcome.EDGE, "a"), (Outcome.DEAD_LETTER, "b")]
    assert emissions[1].stream.metadata.stream_error.error_code == "ModuleFailed"


def test_a_failure_goes_to_the_error_end_where_the_graph_names_one(services):
    graph = make_graph([node("a"), node("oops", node_type=NodeType.SINK)], error_end="oops")

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: ModuleFailed("no")), SETTINGS)

    assert (emission.outcome, emission.to_node_id) == (Outcome.ERROR_END, "oops")
    assert emission.stream.metadata.stream_error.error_message == "no"
    assert emission.stream.metadata.stream_error.originating_node_id == "a"


def test_at_the_error_end_a_document_has_type_message_details_and_trace(services):
    graph = make_graph([node("a"), node("oops", node_type=NodeType.SINK)], error_end="oops")

    def break_down(*_):
        raise ModuleFailed("page 3 is blank", details={"page": 3}) from ValueError("blank")

    (emission,) = follow(stream_at("a"), graph, services(graph, a=break_down), SETTINGS)

    technical = json.loads(emission.stream.metadata.stream_error.technical_details)
    assert (technical["type"], technical["message"]) == ("ValueError", "page 3 is blank")
    assert technical["details"] == {"page": 3}
    assert technical["attempts"] == 1
    assert "in break_down" in technical["traceback"]
    assert technical["traceback"].rstrip().endswith("ModuleFailed: page 3 is blank")


def test_the_type_and_the_trace_that_a_module_tells_are_those_of_the_error(services):
    graph = make_graph([node("a")])
    error = ModuleFailed("blank", error_type="PageError", trace="their own lines")

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: error), SETTINGS)

    technical = json.loads(emission.stream.metadata.stream_error.technical_details)
    assert (technical["type"], technical["traceback"]) == ("PageError", "their own lines")


def test_a_long_trace_keeps_its_end(services):
    graph = make_graph([node("a")])
    error = ModuleFailed("blank", trace="x" * 100_000 + "the cause")

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: error), SETTINGS)

    technical = json.loads(emission.stream.metadata.stream_error.technical_details)
    assert technical["traceback"].endswith("the cause")
    assert len(technical["traceback"]) == 4_000


def test_details_that_would_make_a_record_too_large_are_cut(services):
    graph = make_graph([node("a")])
    error = ModuleFailed("blank", details={"page": "x" * 100_000})

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: error), SETTINGS)

    technical = json.loads(emission.stream.metadata.stream_error.technical_details)
    assert technical["details"].startswith('{"page": "xxx')
    assert len(technical["details"]) == 4_000


def test_a_document_that_fails_has_a_failed_hop(services):
    graph = make_graph([node("a"), node("b")], [edge("a", "b", transport=Transport.GRPC)])
    error = ModuleFailed("no", log_entries=[LogEntry(message="no font")])

    (emission,) = follow(stream_at("a"), graph, services(graph, b=lambda *_: error), SETTINGS)

    first, second = emission.stream.metadata.history
    assert (first.node_id, first.status) == ("a", "SUCCESS")
    assert (second.hop_number, second.node_id, second.status) == (2, "b", "FAILED")
    assert (second.error_info.error_code, second.error_info.error_message) == ("ModuleFailed", "no")
    assert (second.graph_hash, second.service_instance_id) == (graph_hash(graph)[:16], "host:1")
    assert (second.document_id, second.stream_id) == ("d1", "s1")
    assert [entry.message for entry in second.log_entries] == ["no font"]
    assert emission.stream.hop_count == 1


def test_a_condition_that_errs_names_the_node_it_guards(services):
    condition = 'doc.search_metadata.metadata["missing"] == "x"'
    graph = make_graph([node("a"), node("b")], [edge("a", "b", condition)])

    (emission,) = follow(stream_at("a"), graph, services(graph), SETTINGS)

    assert emission.stream.metadata.stream_error.attempted_target_node_id == "b"
    assert emission.stream.metadata.history[-1].attempted_target_node_id == "b"


def test_a_transient_failure_is_tried_again_and_may_succeed(services, calls):
    graph = make_graph([node("a")])

    def flaky(document, context):
        return ModuleUnavailable("later") if context.attempt < 3 else [document]

    (emission,) = follow(stream_at("a"), graph, services(graph, a=flaky), SETTINGS)

    assert emission.outcome is Outcome.HAPPY_END
    assert [context.attempt for context in calls] == [1, 2, 3]


def test_a_transient_failure_that_stays_becomes_a_dead_letter_with_its_attempts(services):
    graph = make_graph([node("a", dead_letters=DeadLetterPolicy(max_attempts=4))])

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: ModuleUnavailable("down")), SETTINGS)

    assert emission.outcome is Outcome.DEAD_LETTER
    assert emission.attempts == 4


def test_an_unexpected_error_costs_one_document_and_not_the_task(services, caplog):
    graph = make_graph([node("a")])

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: ZeroDivisionError("bug")), SETTINGS)

    assert emission.outcome is Outcome.DEAD_LETTER
    assert "unexpected ZeroDivisionError: bug" in str(emission.error)
    assert emission.error.concerns is Concern.RECORD
    assert "unexpected error at node a" in caplog.text
    technical = json.loads(emission.stream.metadata.stream_error.technical_details)
    assert technical["type"] == "ZeroDivisionError"
    assert "in process" in technical["traceback"]


def test_a_message_with_half_a_character_costs_one_document_and_not_the_task(services, caplog):
    caplog.set_level(logging.CRITICAL, "pipestream")  # pytest cannot hand such a text from one process to another
    graph = make_graph([node("a")])
    broken = os.fsdecode(b"caf\xe9")

    (emission,) = follow(stream_at("a"), graph, services(graph, a=lambda *_: ValueError(broken)), SETTINGS)

    assert emission.outcome is Outcome.DEAD_LETTER
    assert "caf?" in emission.stream.metadata.stream_error.error_message
    record = InputRecord("intake.a", 0, 0, 0, b"k", b"v")
    assert emission.error is not None
    letter = dead_letter(
        record, emission.error, topic="dlq", node_id="a", attempts=1, run_id="r", graph_id="g", graph_hash="h", now=0.0
    )
    for name in ("message", "stacktrace"):
        assert "caf?" in header(letter.headers, f"__connect.errors.exception.{name}")


def test_pauses_grow_up_to_their_limit_and_jitter_only_shortens_them():
    policy = retry_policy(node("a", dead_letters=DeadLetterPolicy(5, "", 5, 100, 300)), SETTINGS)

    assert [policy.pause_s(attempt, 0) for attempt in (1, 2, 3, 4)] == [0.1, 0.2, 0.3, 0.3]
    assert policy.pause_s(1, 0.999) > 0.05


def test_a_stream_whose_time_is_over_becomes_no_dead_letter(services, calls):
    graph = make_graph([node("a", module="x", dead_letters=DeadLetterPolicy(max_attempts=1))])

    def use_up_the_time(_document, context):
        while time.monotonic() < context.deadline:
            time.sleep(0.01)
        return ModuleTimeout("took too long")

    with pytest.raises(TimeBudgetSpent, match="at node a"):
        follow(stream_at("a"), graph, services(graph), SETTINGS, deadline=time.monotonic())
    assert calls == []
    made = services(graph, a=use_up_the_time)
    with pytest.raises(TimeBudgetSpent):
        follow(stream_at("a"), graph, made, SETTINGS, deadline=time.monotonic() + 1)
    (context,) = calls
    assert 0 < context.timeout_s <= 1

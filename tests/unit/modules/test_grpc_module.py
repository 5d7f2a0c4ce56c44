from __future__ import annotations

import threading

import grpc
import pytest

from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2 as service
from pipestream.modules.module import HopStatus, ModuleContext
from pipestream.modules.resolve import resolve_module
from pipestream.wire import PipeDoc, ProcessDataResponse
from pipestream_testing.modules import GrpcModuleServer

INPUT = PipeDoc(doc_id="in")
OUTPUT = PipeDoc(doc_id="out")


def call(handler, document=INPUT, **context):
    with GrpcModuleServer(handler) as server:
        module = resolve_module(server.spec)
        try:
            values = {"timeout_s": 10.0} | context
            return module.process(document, ModuleContext("graph", "node", "stream-1", **values))
        finally:
            module.close()


def answer(outcome="UNSPECIFIED", **fields):
    response = ProcessDataResponse(outcome=getattr(service, f"PROCESSING_OUTCOME_{outcome}"), **fields)
    return lambda request, context: response


@pytest.mark.parametrize("outcome", ["SUCCESS", "PARTIAL", "UNSPECIFIED"])
def test_the_document_that_the_module_returns_continues(outcome):
    assert call(answer(outcome, output_doc=OUTPUT)).documents == [OUTPUT]


def test_a_document_that_the_module_skips_continues_unchanged():
    skipped = call(answer("SKIPPED", output_doc=OUTPUT))

    assert (skipped.documents, skipped.status) == ([INPUT], HopStatus.SKIPPED)


def test_a_partial_result_keeps_what_went_wrong_and_the_log():
    def half(request, context):
        response = ProcessDataResponse(outcome=service.PROCESSING_OUTCOME_PARTIAL, output_doc=OUTPUT)
        response.partial_failure_details.extend(["page 3 is blank", "page 7 is blank"])
        response.error_details["pages"] = 2
        response.log_entries.add(message="no font for page 3")
        return response

    answered = call(half)

    assert (answered.documents, answered.status) == ([OUTPUT], HopStatus.PARTIAL)
    assert answered.problems == ("page 3 is blank", "page 7 is blank")
    assert answered.details == {"pages": 2}
    assert [entry.message for entry in answered.log_entries] == ["no font for page 3"]


def test_success_without_a_document_ends_its_route():
    assert call(answer("SUCCESS")).documents == []


def test_an_empty_answer_is_a_failure_and_drops_nothing():
    with pytest.raises(ModuleFailed, match="neither an outcome nor a document"):
        call(answer())


def test_a_failure_tells_the_modules_error_details():
    def fail(request, context):
        response = ProcessDataResponse(outcome=service.PROCESSING_OUTCOME_FAILURE)
        response.error_details["code"] = "E42"
        response.error_details["page"] = 7
        return response

    with pytest.raises(ModuleFailed, match=r'"code": "E42"') as caught:
        call(fail)

    assert caught.value.details == {"code": "E42", "page": 7}


def test_a_failure_without_details_tells_its_log():
    def fail(request, context):
        response = ProcessDataResponse(outcome=service.PROCESSING_OUTCOME_FAILURE)
        response.log_entries.add(message="no font for page 3")
        return response

    with pytest.raises(ModuleFailed, match="no font for page 3") as caught:
        call(fail)

    assert [entry.message for entry in caught.value.log_entries] == ["no font for page 3"]


def test_a_failure_may_tell_its_type_and_its_trace():
    def fail(request, context):
        response = ProcessDataResponse(outcome=service.PROCESSING_OUTCOME_FAILURE)
        response.error_details.update({"type": "ValueError", "traceback": "line 1\nline 2", "page": 7})
        return response

    with pytest.raises(ModuleFailed) as caught:
        call(fail)

    assert (caught.value.error_type, caught.value.trace) == ("ValueError", "line 1\nline 2")
    assert caught.value.details == {"page": 7}


def test_the_module_learns_where_it_is_and_how_it_is_configured():
    seen = {}

    def look(request, context):
        seen["request"] = request
        seen["metadata"] = dict(context.invocation_metadata())
        return ProcessDataResponse(output_doc=request.document)

    call(
        look,
        hop=3,
        attempt=2,
        idempotency_key="key-1",
        trace_id="trace-1",
        config={"depth": 2, "tags": ["a"]},
        config_params={"mode": "fast"},
    )

    metadata = seen["request"].metadata
    assert (metadata.pipeline_name, metadata.pipe_step_name) == ("graph", "node")
    assert (metadata.stream_id, metadata.current_hop_number) == ("stream-1", 3)
    assert seen["request"].config.json_config["depth"] == 2
    assert list(seen["request"].config.json_config["tags"]) == ["a"]
    assert dict(seen["request"].config.config_params) == {"mode": "fast"}
    assert seen["metadata"]["pipestream-idempotency-key"] == "key-1"
    assert seen["metadata"]["pipestream-attempt"] == "2"
    assert seen["metadata"]["pipestream-trace-id"] == "trace-1"


def test_a_document_far_above_grpcs_own_limit_goes_through():
    document = PipeDoc(doc_id="big")
    document.blob_bag.blob.data = bytes(20_000_000)

    (returned,) = call(lambda request, context: ProcessDataResponse(output_doc=request.document), document).documents

    assert returned == document


def test_a_module_that_is_not_there_is_unavailable():
    with GrpcModuleServer(answer()) as server:
        module = resolve_module(server.spec)

    with pytest.raises(ModuleUnavailable, match="UNAVAILABLE"):
        module.process(INPUT, ModuleContext("graph", "node", "stream-1", timeout_s=10))
    module.close()


def test_a_module_that_takes_too_long_is_unavailable():
    released = threading.Event()

    def hang(request, context):
        released.wait(60)
        return ProcessDataResponse(output_doc=request.document)

    with GrpcModuleServer(hang) as server:
        module = resolve_module(server.spec)
        with pytest.raises(ModuleUnavailable, match=r"took longer than 0\.3 s"):
            module.process(INPUT, ModuleContext("graph", "node", "stream-1", timeout_s=0.3))
        released.set()
        module.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.UNAVAILABLE, ModuleUnavailable),
        (grpc.StatusCode.ABORTED, ModuleUnavailable),
        (grpc.StatusCode.CANCELLED, ModuleUnavailable),
        (grpc.StatusCode.INVALID_ARGUMENT, ModuleFailed),
        (grpc.StatusCode.INTERNAL, ModuleFailed),
        (grpc.StatusCode.UNIMPLEMENTED, ModuleFailed),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ModuleUnavailable),
    ],
)
def test_a_status_is_worth_a_retry_or_not(code, error):
    with pytest.raises(error, match=f"{code.name}: because"):
        call(lambda request, context: context.abort(code, "because"))


def test_a_module_that_raises_has_failed():
    def crash(request, context):
        raise RuntimeError("out of ideas")

    with pytest.raises(ModuleFailed, match=r"UNKNOWN.*out of ideas"):
        call(crash)


def test_a_module_that_comes_back_is_reached_again():
    def echo(request, context):
        return ProcessDataResponse(output_doc=request.document)

    context = ModuleContext("graph", "node", "stream-1", timeout_s=10, wait_s=30)
    with GrpcModuleServer(echo) as server:
        module = resolve_module(server.spec)
        assert module.process(INPUT, context).documents == [INPUT]
    for _ in range(2):
        with pytest.raises(ModuleUnavailable):
            module.process(INPUT, context)

    with GrpcModuleServer(echo, port=server.port):
        returned = module.process(INPUT, context)
    module.close()
    assert returned.documents == [INPUT]

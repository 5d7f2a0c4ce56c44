"""What each error code of a gRPC module becomes: how often it is tried, and its name in dead letters and histories."""

from __future__ import annotations

import json
import textwrap

import grpc
import pytest

from pipestream.engine.carry import Carrier
from pipestream.engine.intake import Arrival, Entrance, take_in
from pipestream.engine.services import open_services
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeStream, ProcessDataResponse
from pipestream_testing.modules import GrpcModuleServer

CODES = [
    ("TIMEOUT", "DEADLINE_EXCEEDED", "ModuleTimeout"),
    ("UNAVAILABLE", "UNAVAILABLE", "ModuleUnavailable"),
    ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "ModuleUnavailable"),
    ("NOT_FOUND", "NOT_FOUND", "ModuleFailed"),
    ("INVALID_ARGUMENT", "INVALID_ARGUMENT", "ModuleFailed"),
    ("INVALID_STATE", "FAILED_PRECONDITION", "ModuleFailed"),
    ("VALIDATION_ERROR", None, "ModuleFailed"),
]


def outputs_of(handler, tmp_path, error_end=""):
    """Carry one document to a module; return the only record that leaves, and how often the module was called."""
    calls = []

    def handle(request, context):
        calls.append(request)
        return handler(context)

    settings = Settings(store_uri=f"file://{tmp_path}", retry_initial_ms=0, retry_max_ms=0, module_breaker_pause_s=0.01)
    with GrpcModuleServer(handle) as server, open_store(settings.store_uri, settings) as store:
        text = f"""
            graph: g
            cluster: main
            {error_end}
            datasources: [{{id: s, account: acme, entry: a}}]
            nodes:
              - {{id: a, module: "{server.spec}"}}
              - {{id: failed, type: sink}}
        """
        graph = check_graph_text(textwrap.dedent(text).encode(), "g").require()
        entrance = Entrance(graph, "a", "lane", "s")
        stream = PipeStream()
        stream.document.doc_id = "d1"
        arrival = Arrival(InputRecord("intake.s", 0, 7, 0, b"d1", stream.SerializeToString(), ()), "origin")
        with open_services(built(graph), settings, ["a"], store) as services:
            carrier = Carrier(entrance, "run-1", services, settings)
            result = carrier.carry(arrival, take_in([arrival], entrance, store)[0])
    (output,) = result.outputs
    return output, len(calls)


def answer_with(code, status):
    def answer(context):
        if status:
            context.abort(getattr(grpc.StatusCode, status), "because")
        response = ProcessDataResponse(outcome=3)
        response.error_details["code"] = code
        return response

    return answer


@pytest.mark.parametrize(("code", "status", "error"), CODES)
def test_a_dead_letter_names_the_code_and_tells_how_often_it_was_tried(tmp_path, code, status, error):
    letter, calls = outputs_of(answer_with(code, status), tmp_path)

    headers = {name: value.decode() for name, value in letter.headers}
    tries = 1 if error == "ModuleFailed" else 3
    assert letter.topic == "dlq.intake.s"
    assert headers["pipestream.dead.error-type"] == code
    assert headers["__connect.errors.exception.class.name"] == error
    assert (headers["pipestream.dead.attempts"], calls) == (str(tries), tries)


@pytest.mark.parametrize(("code", "status", "error"), CODES)
def test_the_history_of_a_failed_document_names_the_code(tmp_path, code, status, error):
    record, _ = outputs_of(answer_with(code, status), tmp_path, error_end="error_end: failed")

    metadata = PipeStream.FromString(record.value).metadata
    assert record.topic == "pipestream.main.failed"
    assert metadata.stream_error.error_code == error
    assert json.loads(metadata.stream_error.technical_details)["type"] == code
    assert [hop.status for hop in metadata.history] == ["FAILED"]

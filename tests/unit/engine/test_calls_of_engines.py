"""Calls of other engines: one that cannot take any document is waited for, and large documents go by reference."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from pipestream.engine.handoff import EngineHandoff
from pipestream.engine.remote import RemoteEngine
from pipestream.errors import ModuleDown, ModuleFailed, TimeBudgetSpent
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffResponse, ProcessNodeResponse
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import (
    EngineV1ServiceServicer,
    add_EngineV1ServiceServicer_to_server,
)
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeDoc, PipeStream

NOT_THERE = ProcessNodeResponse(error_message="INVALID_STATE: graph 'g' has no node 'a'")
NOT_ACCEPTED = IntakeHandoffResponse(message="no applied graph has the datasource 'files'")


class ScriptedEngine(EngineV1ServiceServicer):
    """Gives its answers in turn, the last one again and again; a status is aborted with."""

    def __init__(self):
        self.answers = []
        self.taken = []
        self.left_s = []

    def IntakeHandoff(self, request, context):  # noqa: N802 - the protocol's name
        return self._answer(request, context)

    def ProcessNode(self, request, context):  # noqa: N802 - the protocol's name
        return self._answer(request, context)

    def _answer(self, request, context):
        self.taken.append(request)
        self.left_s.append(context.time_remaining())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "not now")
        return answer


@pytest.fixture
def engine():
    engine = ScriptedEngine()
    server = grpc.server(ThreadPoolExecutor(1))
    add_EngineV1ServiceServicer_to_server(engine, server)
    engine.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield engine
    server.stop(None).wait()


@pytest.fixture
def wait_s():
    """How long an engine that is not ready is waited for: longer than three calls take on a busy machine."""
    return 60.0


@pytest.fixture
def settings(tmp_path, wait_s):
    return Settings(module_wait_s=wait_s, store_uri=tmp_path.as_uri(), grpc_max_message_bytes=100_000)


@pytest.fixture(params=["intake", "node", "remote"])
def caller(request, engine, settings, wait_s):
    """Whoever calls an engine, with what the engine answers while it is not ready, and when it has taken a stream."""
    if request.param == "remote":
        caller = RemoteEngine(engine.address, settings=settings)
    else:
        caller = EngineHandoff(engine.address, is_intake=request.param == "intake", wait_s=wait_s, settings=settings)
    is_intake = request.param == "intake"
    caller.not_ready = NOT_ACCEPTED if is_intake else NOT_THERE
    caller.taken = IntakeHandoffResponse(accepted=True) if is_intake else ProcessNodeResponse(success=True)
    yield caller
    caller.close()


def stream():
    return PipeStream(stream_id="s1", current_node_id="a", document={"doc_id": "d1"}, metadata={"account_id": "acme"})


def test_an_engine_that_is_not_ready_is_asked_again_until_it_is(engine, caller):
    engine.answers = [caller.not_ready, caller.not_ready, caller.taken]

    caller.process(stream(), "key", 30)

    assert len(engine.taken) == 3


# The second call comes after 0.1 s at most.
@pytest.mark.parametrize("wait_s", [2.0])
def test_an_engine_that_does_not_become_ready_blames_no_document(engine, caller):
    engine.answers = [caller.not_ready]

    with pytest.raises(ModuleDown, match=r"'files'|'a'"):
        caller.process(stream(), "key", 30)

    assert len(engine.taken) > 1


def test_an_engine_that_is_not_ready_is_waited_for_no_longer_than_the_caller_waits(engine, caller):
    engine.answers = [caller.not_ready]

    with pytest.raises(TimeBudgetSpent, match="ended at engine"):
        caller.process(stream(), "key", 30, time.monotonic() + 1.0)


def test_a_call_of_an_engine_has_the_time_that_its_caller_has_left(engine, caller):
    engine.answers = [caller.not_ready, caller.taken]
    deadline = time.monotonic() + 200

    caller.process(stream(), "key", 300, deadline)

    assert [left_s for left_s in engine.left_s if left_s > 200] == []


def test_a_document_that_is_refused_fails_at_once(engine, caller):
    is_intake = isinstance(caller.taken, IntakeHandoffResponse)
    refused = ProcessNodeResponse(error_message="INVALID_ARGUMENT: the document has no id")
    engine.answers = [grpc.StatusCode.INVALID_ARGUMENT if is_intake else refused]

    with pytest.raises(ModuleFailed):
        caller.process(stream(), "key", 30)

    assert len(engine.taken) == 1


def test_a_document_that_is_too_large_for_a_message_is_sent_by_reference(engine, caller, settings):
    engine.answers = [caller.taken]
    large = stream()
    large.document.search_metadata.title = "x" * 100_000

    caller.process(large, "key", 30)
    caller.process(large, "key", 30)

    first, repeated = (request.stream for request in engine.taken)
    assert first == repeated
    assert not first.HasField("document")
    assert first.document_ref.doc_id == "d1"
    with open_store(settings.store_uri, settings) as store:
        assert PipeDoc.FromString(store.get(first.document_ref.object_key)) == large.document
    assert large.HasField("document")

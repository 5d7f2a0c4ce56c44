"""gRPC modules behind an engine: the same blobs, and callers that are told at once that a module is down."""

from __future__ import annotations

import hashlib

import grpc
import pytest

from pipestream.documents.references import blob_key
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.objects.store import open_store
from pipestream.wire import PipeStream
from pipestream_testing.engines import apply, engine
from pipestream_testing.modules import GrpcModuleServer
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack


def graph_text(unique, spec):
    return f"""
graph: {unique}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: first}}]
nodes: [{{id: first, module: "{spec}"}}]
"""


def parse(request, context):
    request.document.search_metadata.body = request.document.blob_bag.blob.data.decode()
    return GrpcModuleServer.answer(request.document)


def test_a_parser_behind_an_engine_gets_the_blobs_of_a_handed_over_document(settings, unique):
    content = b"the content of a scan"
    key = blob_key("acme", unique, "doc-1", hashlib.sha256(content).hexdigest())
    stream = PipeStream()
    stream.document.doc_id = "doc-1"
    stream.document.blob_bag.blob.storage_ref.object_key = key
    with open_store(settings.store_uri, settings) as store:
        store.put(key, content)
        with GrpcModuleServer(parse, capabilities=[1]) as server:
            apply(settings, graph_text(unique, server.spec))
            with engine(settings, engine_name=unique) as running:
                answer = running.hand_off(unique, "doc-1", stream=stream)
        (found,) = read_topic(settings, f"pipestream.{unique}.happy-end")
        stored = store.get(f"streams/acme/{found.stream.stream_id}/first.pb")

    assert answer.accepted
    assert stored.count(content) == 1, "once in the body, and not as a blob"
    assert key.encode() in stored


def test_a_caller_is_told_that_a_module_is_down_and_no_document_becomes_a_dead_letter(settings, unique):
    with GrpcModuleServer(parse) as server:
        apply(settings, graph_text(unique, server.spec))
    with engine(settings, engine_name=unique, module_breaker_pause_s=0.05) as running:
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as caught:
                running.hand_off(unique, "doc-1", key="k1")
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "is down" in caught.value.details()
        while_down = running.stub.GetHealth(pb.GetHealthRequest()).health
        with GrpcModuleServer(parse, port=server.port):
            wait_until(lambda: _is_accepted(running, unique))
        afterwards = running.stub.GetHealth(pb.GetHealthRequest()).health
        found = read_topic(settings, f"pipestream.{unique}.happy-end", f"dlq.intake.{unique}")
        dead = [each for each in found if each.record.topic.startswith("dlq.")]

    assert [each.doc_id for each in found] == ["doc-1"]
    assert dead == []
    assert (while_down, afterwards) == (pb.ENGINE_HEALTH_DEGRADED, pb.ENGINE_HEALTH_HEALTHY)


def _is_accepted(running, unique):
    try:
        return running.hand_off(unique, "doc-1", key="k1").accepted
    except grpc.RpcError:
        return False

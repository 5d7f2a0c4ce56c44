"""gRPC modules in a drain on real servers: one that goes away, and one that reads blobs."""

from __future__ import annotations

import hashlib
import threading
from contextlib import ExitStack

import pytest

from pipestream.documents.references import blob_key
from pipestream.documents.repository import Repository
from pipestream.drain.range_task import RangeFailed
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.modules import GrpcModuleServer
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack

DOC_IDS = [f"d{number:02}" for number in range(40)]


class FallingModule:
    """A gRPC module that goes away at its twentieth document, as a server that is restarted does."""

    def __init__(self):
        self.seen, self.gone = [], threading.Event()
        self._stack = ExitStack()
        self.server = self._stack.enter_context(GrpcModuleServer(self._handle))

    def _handle(self, request, context):
        self.seen.append(request.document.doc_id)
        if len(self.seen) == 20:
            self.gone.set()
            context.abort(context_unavailable(), "going away")
        if self.gone.is_set():
            context.abort(context_unavailable(), "gone")
        return GrpcModuleServer.answer(request.document)

    def stop(self):
        self._stack.close()

    def start_again(self):
        self.gone.clear()
        self.seen.append("restarted")
        self._stack.enter_context(GrpcModuleServer(self._handle, port=self.server.port))


def context_unavailable():
    from grpc import StatusCode

    return StatusCode.UNAVAILABLE


@pytest.fixture
def module():
    made = FallingModule()
    yield made
    made.stop()


@pytest.fixture
def make_pipeline(settings, unique, tmp_path):
    def make(spec, datasource="", **changes):
        file = tmp_path / "graph.yaml"
        file.write_text(
            f"graph: {unique}\ncluster: {unique}\n"
            f"datasources: [{{{datasource}id: {unique}, account: acme, entry: call, partitions: 1}}]\n"
            f'nodes: [{{id: call, module: "{spec}"}}]\n'
        )
        made = {"chunk_records": 10, "module_breaker_pause_s": 0.05, "failing_minimum": 1_000}
        pipeline = Pipeline(settings.model_copy(update={**made, **changes}), file)
        pipeline.create_topics()
        return pipeline

    return make


def test_a_drain_waits_for_a_module_that_comes_back_and_makes_no_dead_letter(make_pipeline, module, topic, unique):
    pipeline = make_pipeline(module.server.spec, module_wait_s=120)
    pipeline.send(topic, DOC_IDS)

    def restart():
        assert module.gone.wait(120)
        module.stop()
        module.start_again()

    thread = threading.Thread(target=restart)
    thread.start()
    report = pipeline.drain(topic, "run-1")
    thread.join()

    assert report.status == "drained"
    assert pipeline.doc_ids(f"pipestream.{unique}.happy-end") == dict.fromkeys(DOC_IDS, 1)
    assert pipeline.doc_ids(f"dlq.intake.{unique}") == {}
    pipeline.check_ledger_tiles(topic)


def test_a_module_that_stays_away_stops_the_run_and_the_next_one_goes_on(make_pipeline, module, topic, unique):
    pipeline = make_pipeline(module.server.spec, module_wait_s=0.5)
    pipeline.send(topic, DOC_IDS)
    happy_end, dead = f"pipestream.{unique}.happy-end", f"dlq.intake.{unique}"
    stopping = threading.Thread(target=lambda: (module.gone.wait(120), module.stop()))
    stopping.start()

    with pytest.raises(RangeFailed, match=r"is down .*did not come back") as caught:
        pipeline.drain(topic, "run-1")
    stopping.join()

    assert caught.value.transient
    assert pipeline.doc_ids(happy_end) == dict.fromkeys(DOC_IDS[:10], 1)
    assert pipeline.doc_ids(dead) == {}
    module.start_again()
    pipeline.drain(topic, "run-2")
    assert pipeline.doc_ids(happy_end) == dict.fromkeys(DOC_IDS, 1)
    assert pipeline.doc_ids(dead) == {}
    pipeline.check_ledger_tiles(topic)


def test_a_document_that_kills_its_module_becomes_a_dead_letter_and_the_others_pass(make_pipeline, topic, unique):
    def handle(request, context):
        if request.document.doc_id == "bad":
            context.abort(context_unavailable(), "connection lost")
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(handle) as server:
        pipeline = make_pipeline(server.spec)
        pipeline.send(topic, ["d1", "bad", "d2"])
        pipeline.drain(topic, "run-1")

    assert pipeline.doc_ids(f"pipestream.{unique}.happy-end") == {"d1": 1, "d2": 1}
    (letter,) = pipeline.read(f"dlq.intake.{unique}")
    headers = dict(letter.record.headers)
    assert letter.doc_id == "bad"
    assert headers["pipestream.dead.attempts"] == b"3"
    assert headers["pipestream.dead.error-type"] == b"UNAVAILABLE"
    assert headers["__connect.errors.exception.class.name"] == b"ModuleUnavailable"


def test_a_parser_behind_grpc_gets_blobs_and_the_stored_document_keeps_references(make_pipeline, topic, unique):
    content, missing = b"the content of a scan", hashlib.sha256(b"missing").hexdigest()
    seen = []

    def parse(request, context):
        seen.append(request.document.blob_bag.blob.data)
        request.document.search_metadata.body = request.document.blob_bag.blob.data.decode()
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(parse, capabilities=[1]) as server:
        pipeline = make_pipeline(server.spec)
        with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
            key = blob_key("acme", unique, "d1", hashlib.sha256(content).hexdigest())
            store.put(key, content)
            pipeline.send_streams(
                topic, [stream_with("d1", key), stream_with("d2", blob_key("acme", unique, "d2", missing))]
            )
            pipeline.drain(topic, "run-1")
            (found,) = pipeline.read(f"pipestream.{unique}.happy-end")
            stored = PipeDoc.FromString(store.get(f"streams/acme/{found.stream.stream_id}/call.pb"))

    assert seen == [content]
    assert stored.search_metadata.body == content.decode()
    assert stored.blob_bag.blob.storage_ref.object_key == key
    (letter,) = pipeline.read(f"dlq.intake.{unique}")
    assert letter.doc_id == "d2"
    assert dict(letter.record.headers)["__connect.errors.exception.class.name"] == b"DocumentMissing"


def stream_with(doc_id, key):
    stream = PipeStream()
    stream.document.doc_id = doc_id
    stream.document.blob_bag.blob.blob_id = "scan"
    stream.document.blob_bag.blob.storage_ref.object_key = key
    return stream


def test_a_large_blob_of_an_upload_is_stored_by_itself_and_its_parser_gets_it(make_pipeline, topic, unique):
    seen = []

    def parse(request, context):
        seen.append(request.document.blob_bag.blob.data)
        return GrpcModuleServer.answer(request.document)

    with GrpcModuleServer(parse, capabilities=[1]) as server:
        pipeline = make_pipeline(server.spec, datasource="hydration: {max_inline_blob_size_bytes: 10}, ")
        document = PipeDoc(doc_id="d1")
        document.blob_bag.blob.data = b"more than ten bytes"
        with Repository(pipeline.settings) as repository:
            upload = repository.upload(document, pipeline.graph.datasources[0])
        pipeline.drain(topic, "run-1")
        (found,) = pipeline.read(f"pipestream.{unique}.happy-end")
        with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
            objects = [store.get(upload.object_key), store.get(f"streams/acme/{found.stream.stream_id}/call.pb")]

    assert seen == [b"more than ten bytes"]
    assert all(b"more than ten bytes" not in each for each in objects)

"""Engines for tests: in a thread of the test's process, on real servers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from pipestream.deployment.versions import GraphVersions
from pipestream.engine_server.server import EngineOptions, RunningEngine, running_engine
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.gen.pipestream.live.v1.handoff_service_pb2_grpc import HandoffServiceStub
from pipestream.graph.load import check_graph_text
from pipestream.graph.model import Graph
from pipestream.graph.proto import graph_hash
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.rpc.channels import open_channel
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream.wire import PipeStream
from pipestream_testing.waiting import wait_until

PATIENCE_S = 120.0


class Engine:
    """A running engine and a client of it."""

    def __init__(
        self, running: RunningEngine, loop: asyncio.AbstractEventLoop, channel: grpc.Channel, settings: Settings
    ) -> None:
        self.running = running
        self.settings = settings
        self.loop = loop
        self.address = running.address
        self.channel = channel
        self.stub = EngineV1ServiceStub(channel)
        self.batches = HandoffServiceStub(channel)

    def apply(self, text: str) -> Graph:
        """Apply a graph, and wait until the engine serves it."""
        graph = apply(self.settings, text)
        self.wait_for(graph)
        return graph

    def wait_for(self, graph: Graph) -> None:
        """Wait until the engine serves this version of a graph."""
        wanted = graph_hash(graph)
        graphs = self.running.graphs
        wait_until(lambda: getattr(graphs.directory.graphs.get(graph.graph_id), "digest", "") == wanted)

    def hand_off(self, datasource_id: str, doc_id: str, key: str = "", timeout_s: float = PATIENCE_S, **fields):
        """Hand over a document that is inline, and return the answer."""
        request = handoff(datasource_id, doc_id, **fields)
        metadata = [(IDEMPOTENCY_KEY, key)] if key else []
        return self.stub.IntakeHandoff(request, timeout=timeout_s, metadata=metadata)

    def stop(self) -> bool:
        """Stop it gracefully, and tell whether all calls finished."""
        return asyncio.run_coroutine_threadsafe(self.running.stop(), self.loop).result(PATIENCE_S)


def handoff(datasource_id: str, doc_id: str, title: str = "", body: str = "", **fields) -> pb.IntakeHandoffRequest:
    request = pb.IntakeHandoffRequest(datasource_id=datasource_id, **fields)
    if request.stream.WhichOneof("document_payload") is None:
        request.stream.document.doc_id = doc_id
        request.stream.document.search_metadata.title = title or doc_id
        if body:
            request.stream.document.search_metadata.body = body
    return request


def at_node(node_id: str, doc_id: str, account_id: str = "acme", **fields) -> PipeStream:
    """Return a stream on its way to a node."""
    stream = PipeStream(stream_id=f"stream-{doc_id}", current_node_id=node_id, **fields)
    stream.metadata.account_id = account_id
    stream.document.doc_id = doc_id
    stream.document.search_metadata.title = doc_id
    return stream


def apply(settings: Settings, text: str) -> Graph:
    """Make the topics of a graph, and its text the active version."""
    graph = check_graph_text(text.encode(), "graph.yaml").require()
    TopicAdmin(settings).create(required_topics(graph, settings))
    save(settings, graph)
    return graph


def save(settings: Settings, graph: Graph) -> None:
    """Make a graph the active version without looking at it: an older version may break today's rules."""
    versions = GraphVersions(settings)
    versions.save(graph, applied_by="test")
    versions.close()


@contextmanager
def engine(settings: Settings, options: EngineOptions | None = None, **changes) -> Iterator[Engine]:
    """Run an engine in a thread."""
    settings = settings.model_copy(update={"engine_graph_poll_s": 0.1, **changes})
    started, stop = threading.Event(), threading.Event()
    found: list[object] = []

    async def run() -> None:
        try:
            async with running_engine(settings, options or EngineOptions()) as running:
                found.extend([running, asyncio.get_running_loop()])
                started.set()
                while not stop.is_set():
                    await asyncio.sleep(0.02)
        except BaseException as error:
            found.append(error)
            started.set()
            raise

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert started.wait(PATIENCE_S), "the engine did not start"
    if isinstance(found[-1], BaseException):
        raise found[-1]
    try:
        with open_channel(found[0].address) as channel:
            # On a busy machine the first try to connect may run out of time, and then fails the calls that wait for it.
            grpc.channel_ready_future(channel).result(PATIENCE_S)
            yield Engine(found[0], found[1], channel, settings)
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the engine did not stop"

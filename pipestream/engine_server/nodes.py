"""Process a stream at its node: what another engine or a sidecar asks for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pipestream.accepted import content_digest
from pipestream.engine.carry import Carrier
from pipestream.engine.intake import Arrival, Entrance
from pipestream.engine.process import Emission
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk, Job, Keyed
from pipestream.engine_server.graphs import LiveGraphs
from pipestream.engine_server.served import LocalGraph, ServedGraph
from pipestream.errors import RequestInvalid, TerminalError
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeRequest, ProcessNodeResponse
from pipestream.graph.flow import why_inactive
from pipestream.kafka.records import InputRecord
from pipestream.rpc.status import coded_message
from pipestream.topic_names import node_topic
from pipestream.wire import PipeStream

# What the accepted log keeps of an answer for every key; a larger document is left out of a repeated answer.
_ANSWER_BYTES = 3_500
_MESSAGE_LIMIT = 1_000


class NodeProblems(RequestInvalid):
    """A stream cannot be processed at its node; ``problems`` has every reason."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class NodeNotReady(TerminalError):
    """No stream can be processed at a node until the graph or this engine is changed; its code is INVALID_STATE.

    The stream is as it should be, so whoever sent it may wait and send it again.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(slots=True)
class Processed:
    """What became of a stream at its node."""

    response: ProcessNodeResponse
    stream: PipeStream | None = None
    """As it left the node, with its document; None where it was consumed, or answered from the accepted log."""
    hop_count: int = 0
    is_repeat: bool = False
    """Answered from the accepted log."""


@dataclass(slots=True)
class _Seen:
    """Notes the first stream that leaves, before a reference takes its document's place."""

    stream: PipeStream | None = None
    hops: list[int] = field(default_factory=list)

    def note(self, emission: Emission) -> None:
        self.hops.append(emission.stream.hop_count)
        if self.stream is None and emission.error is None:
            self.stream = PipeStream()
            self.stream.CopyFrom(emission.stream)


class NodeCalls:
    """Processes streams at their nodes. One per engine process."""

    def __init__(self, desk: Desk, graphs: LiveGraphs, instance: str) -> None:
        self._desk = desk
        self._graphs = graphs
        self._instance = instance

    async def process(self, request: ProcessNodeRequest, caller: Caller) -> Processed:
        """Process a stream, and answer when what left its node is durable.

        A document that fails goes to the error-end or to the dead letters, as in a drain: that is a success of the
        call, because the engine has taken care of it. The caller must not do it again.

        :raises NodeProblems, NodeNotReady: nothing was done; all that is wrong is listed.
        :raises NotOwner: another process accepts this key.
        """
        keyed = self._desk.keyed(f"node/{caller.key}" if caller.key else "", _identity(request.stream))
        # Before anything else: a repeat gets the first answer, also if its graph takes no documents any more.
        answer = keyed.find()
        if answer is not None:
            return Processed(ProcessNodeResponse.FromString(answer), is_repeat=True)
        served = self._find(request)
        node = served.graph.node_by_id[request.stream.current_node_id]
        # Whoever calls for a node of some engine means this one, whatever name it has there.
        self._desk.counts.opened += not served.is_open_for(node.engine)
        local = served.local_to(node.engine) if node.engine else served.own
        way = local.ways[node.node_id]
        if way.problems:
            raise NodeNotReady([f"graph {served.graph.graph_id}: {problem}" for problem in way.problems])
        with served.in_use():
            return await self._process(request, caller, keyed, local)

    def _find(self, request: ProcessNodeRequest) -> ServedGraph:
        stream = request.stream
        problems, of_engine = [], []
        if not request.HasField("stream"):
            raise NodeProblems(["the request has no stream"])
        if request.HasField("node_override"):
            problems.append("node_override is not taken: a node is changed by applying its graph")
        if stream.WhichOneof("document_payload") is None:
            problems.append("the stream has neither a document nor a reference to one")
        for name in ("stream_id", "current_node_id"):
            if not getattr(stream, name):
                problems.append(f"the stream has no {name}")
        if not stream.metadata.account_id:
            problems.append("the stream's metadata has no account_id")
        graph_id = stream.metadata.graph_id
        found = self._graphs.directory.with_node(stream.current_node_id, graph_id)
        if stream.current_node_id and not found:
            where = f"graph {graph_id[:100]!r}" if graph_id else "no applied graph"
            has = "has no node" if graph_id else "has a node"
            of_engine.append(f"{where} {has} {stream.current_node_id[:100]!r}")
        elif len(found) > 1:
            names = ", ".join(served.graph.graph_id for served in found)
            problems.append(f"node {stream.current_node_id} is in graphs {names}; set metadata.graph_id")
        elif found and (reason := why_inactive(found[0].graph)):
            of_engine.append(reason)
        if problems:
            raise NodeProblems(problems + of_engine)
        if of_engine:
            raise NodeNotReady(of_engine)
        return found[0]

    async def _process(self, request: ProcessNodeRequest, caller: Caller, keyed: Keyed, local: LocalGraph) -> Processed:
        started = time.monotonic()
        stream, graph = request.stream, local.graph
        node = graph.node_by_id[stream.current_node_id]
        seen = _Seen()
        topic = node_topic(graph.cluster_id, node.node_id)
        value = stream.SerializeToString(deterministic=True)
        doc_id = stream.document.doc_id or stream.document_ref.doc_id
        record = InputRecord(topic, -1, -1, int(time.time() * 1000), doc_id.encode() or None, value, caller.headers)
        local.services.meter.received(topic, "grpc", [len(value)])
        carrier = Carrier(
            Entrance(graph, node.node_id, graph.graph_id), self._instance, local.services, self._desk.settings
        )
        is_blocking = local.ways[node.node_id].is_blocking or stream.HasField("document_ref")
        job = Job(carrier, Arrival(record, keyed.origin()), is_blocking, local.packer, seen.note)
        (result,) = results = await self._desk.carry([job], caller.deadline)

        response = ProcessNodeResponse(success=True, module_id=node.module)
        response.completed_at.GetCurrentTime()
        response.processing_time_ms = int((time.monotonic() - started) * 1000)
        if result.error is not None:
            became = "a dead letter" if result.dead_letters else "the error-end"
            response.error_message = f"{became}: {coded_message(result.error)}"[:_MESSAGE_LIMIT]
        if seen.stream is not None and seen.stream.HasField("document"):
            response.output_doc.CopyFrom(seen.stream.document)
        answer = await self._desk.commit([job], results, keyed, lambda: _kept(response))
        if keyed.key and ProcessNodeResponse.FromString(answer).completed_at != response.completed_at:
            return Processed(
                ProcessNodeResponse.FromString(answer), is_repeat=True
            )  # another call with this key was first
        return Processed(response, seen.stream, max(seen.hops, default=stream.hop_count))


def _identity(stream: PipeStream) -> bytes:
    """Return what tells a repeat from another call with the same key.

    Not the whole content: an engine that died calls again with other times in the stream's history, and a module before
    this node may have made another document.
    """
    doc_id = stream.document.doc_id or stream.document_ref.doc_id
    parts = (stream.stream_id, stream.current_node_id, str(stream.hop_count), stream.metadata.account_id, doc_id)
    return content_digest("\0".join(parts).encode())


def _kept(response: ProcessNodeResponse) -> bytes:
    """Return what the accepted log keeps of an answer."""
    answer = response.SerializeToString()
    if len(answer) <= _ANSWER_BYTES:
        return answer
    short = ProcessNodeResponse()
    short.CopyFrom(response)
    short.ClearField("output_doc")
    return short.SerializeToString()

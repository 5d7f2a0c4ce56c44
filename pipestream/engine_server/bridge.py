"""Hand a stream to a node of another cluster, by its bridge topic."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.accepted import content_digest
from pipestream.engine.outputs import output_of
from pipestream.engine.process import Emission, Outcome
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk
from pipestream.errors import IdInvalid, PipestreamError, RecordTooLarge, TopicMissing
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import RouteToClusterRequest, RouteToClusterResponse
from pipestream.graph.model import Edge, Graph
from pipestream.ids import check_graph_id, check_key_part
from pipestream.rpc.status import coded_message
from pipestream.wire import PipeStream

_METHOD = "KAFKA"


@dataclass(frozen=True, slots=True)
class Bridge:
    """Writes to bridge topics."""

    desk: Desk

    async def route(self, request: RouteToClusterRequest, caller: Caller) -> RouteToClusterResponse:
        """Store the stream's document and put the stream on ``bridge.{cluster}.{node}``; answer when it is durable.

        :raises NotOwner: another process accepts this key.
        """
        problems = _problems(request)
        if problems:
            return RouteToClusterResponse(success=False, message="INVALID_ARGUMENT: " + "; ".join(problems))
        content = content_digest(request.SerializeToString(deterministic=True))
        keyed = self.desk.keyed(f"bridge/{caller.key}" if caller.key else "", content)
        answer = keyed.find()
        if answer is None:
            try:
                output = output_of(_emission(request), Graph("", request.target_cluster_id, ()))
                await self.desk.put(dict(output.objects))
                response = RouteToClusterResponse(
                    success=True, message=f"written to {output.record.topic}", routing_method=_METHOD
                )
                answer = await self.desk.submit_soon([output.record], keyed, response.SerializeToString())
            except (TopicMissing, RecordTooLarge, IdInvalid) as error:
                return RouteToClusterResponse(success=False, message=coded_message(error), routing_method=_METHOD)
        return RouteToClusterResponse.FromString(answer)


def _emission(request: RouteToClusterRequest) -> Emission:
    stream = PipeStream()
    stream.CopyFrom(request.stream)
    from_node_id = stream.current_node_id
    stream.current_node_id = request.target_node_id
    stream.cluster_id = request.target_cluster_id
    edge = Edge(
        f"{from_node_id}--{request.target_cluster_id}.{request.target_node_id}",
        from_node_id,
        request.target_node_id,
        request.target_cluster_id,
        is_cross_cluster=True,
    )
    return Emission(Outcome.EDGE, stream, from_node_id, request.target_node_id, edge)


def _problems(request: RouteToClusterRequest) -> list[str]:
    stream = request.stream
    problems = []
    if stream.WhichOneof("document_payload") is None:
        problems.append("the stream has neither a document nor a reference to one")
    checks = (
        (check_graph_id, request.target_cluster_id, "target_cluster_id"),
        (check_graph_id, request.target_node_id, "target_node_id"),
        (check_graph_id, stream.current_node_id, "the stream's current_node_id, the node it leaves,"),
        (check_key_part, stream.stream_id, "the stream's stream_id"),
        (check_key_part, stream.metadata.account_id, "the stream's account_id"),
    )
    for check, value, what in checks:
        try:
            check(value, what)
        except PipestreamError as error:
            problems.append(str(error))
    return problems

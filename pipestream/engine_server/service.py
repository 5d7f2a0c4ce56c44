"""``EngineV1Service``: the nine methods, each a thin shell around what does the work."""

# ruff: noqa: N802 - methods have the names of the protocol

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message

from pipestream.engine_server.bridge import Bridge
from pipestream.engine_server.calls import Caller, read_caller
from pipestream.engine_server.forward import Forwarder, relay
from pipestream.engine_server.handoff import Answered, Failure, Handoffs
from pipestream.engine_server.in_flight import in_groups, in_order
from pipestream.engine_server.nodes import NodeCalls, NodeNotReady, NodeProblems, Processed
from pipestream.engine_server.overview import Overview
from pipestream.errors import IdInvalid, NotOwner, PipestreamError, RecordInvalid
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceServicer
from pipestream.modules.remote import IDEMPOTENCY_KEY, TRANSIENT_CODES
from pipestream.rpc.status import ERROR_CODE, coded_message, status_of

Response = TypeVar("Response", bound=Message)
Metadata = Sequence[tuple[str, str | bytes]]
Status = pb.IntakeHandoffStreamResponse.Status
Told = tuple[Status, pb.IntakeHandoffResponse, str]
"""The answer to one document of many: its status, its response, and the code of an error."""

NAME = "ai.pipestream.engine.v1.EngineV1Service"
_HANDOFF = f"/{NAME}/IntakeHandoff"
_PROCESS = f"/{NAME}/ProcessNode"
_STREAM = f"/{NAME}/ProcessStream"
_ROUTE = f"/{NAME}/RouteToCluster"


class EngineService(EngineV1ServiceServicer):
    """Takes documents in and moves them from node to node."""

    def __init__(
        self,
        handoffs: Handoffs,
        nodes: NodeCalls,
        bridge: Bridge,
        overview: Overview,
        forwarder: Forwarder,
        stream_window: int,
    ) -> None:
        """:param stream_window: how many documents of one stream are worked on at once."""
        self._handoffs = handoffs
        self._nodes = nodes
        self._bridge = bridge
        self._overview = overview
        self._forwarder = forwarder
        self._window = stream_window

    async def IntakeHandoff(self, request: pb.IntakeHandoffRequest, context: Any) -> pb.IntakeHandoffResponse:
        caller = read_caller(context)
        try:
            answered = await self._handoffs.hand_off(request, caller)
        except NotOwner as error:
            metadata = context.invocation_metadata() or ()
            return await self._forward(error, _HANDOFF, request, pb.IntakeHandoffResponse, metadata, caller, context)
        answered.response.queue_depth = self._overview.active
        return answered.response

    async def IntakeHandoffStream(
        self, requests: AsyncIterator[pb.IntakeHandoffStreamRequest], context: Any
    ) -> AsyncIterator[pb.IntakeHandoffStreamResponse]:
        # A key of the whole call is none of its documents: theirs are their stream ids.
        caller = read_caller(context)._replace(key="")
        metadata = context.invocation_metadata() or ()

        def is_quick(each: pb.IntakeHandoffStreamRequest) -> bool:
            return self._handoffs.is_quick(each.request, caller)

        async def answer(group: list[pb.IntakeHandoffStreamRequest]) -> list[pb.IntakeHandoffStreamResponse]:
            told = await self.hand_off_many([(each.request, caller) for each in group], metadata)
            return [_stream_answer(each, *of_each) for each, of_each in zip(group, told, strict=True)]

        async for answered in in_groups(requests, is_quick, answer, self._window, self._overview.stopping):
            yield answered

    async def hand_off_many(
        self, handoffs: Sequence[tuple[pb.IntakeHandoffRequest, Caller]], metadata: Metadata = ()
    ) -> list[Told]:
        """Hand over documents as one unit, and answer each."""
        answers: list[Answered | Failure | grpc.aio.AioRpcError] = [*await self._handoffs.hand_off_many(handoffs)]
        elsewhere = {place: answer for place, answer in enumerate(answers) if isinstance(answer, NotOwner)}
        if elsewhere:
            asking = (self._ask_owner(error, *handoffs[place], metadata) for place, error in elsewhere.items())
            for place, answer in zip(elsewhere, await asyncio.gather(*asking), strict=True):
                answers[place] = answer
        return [_tell(answer) for answer in answers]

    async def _ask_owner(
        self, error: NotOwner, request: pb.IntakeHandoffRequest, caller: Caller, metadata: Metadata
    ) -> Answered | Failure | grpc.aio.AioRpcError:
        """Hand a document on to the process that its key belongs to."""
        try:
            response = await self._hand_on(error, request, caller, metadata)
        except (PipestreamError, TimeoutError, grpc.aio.AioRpcError) as raised:
            return raised
        return Answered(response, not response.accepted and self._handoffs.may_retry(request))

    async def ProcessNode(self, request: pb.ProcessNodeRequest, context: Any) -> pb.ProcessNodeResponse:
        caller = read_caller(context)
        try:
            return (await self._nodes.process(request, caller)).response
        except NotOwner as error:
            metadata = context.invocation_metadata() or ()
            return await self._forward(error, _PROCESS, request, pb.ProcessNodeResponse, metadata, caller, context)
        except (NodeProblems, NodeNotReady, RecordInvalid, IdInvalid) as error:
            failed = pb.ProcessNodeResponse(success=False, error_message=coded_message(error))
            failed.completed_at.GetCurrentTime()
            return failed

    async def ProcessStream(
        self, requests: AsyncIterator[pb.ProcessStreamRequest], context: Any
    ) -> AsyncIterator[pb.ProcessStreamResponse]:
        caller = read_caller(context)
        metadata = context.invocation_metadata() or ()

        async def answer(each: pb.ProcessStreamRequest) -> pb.ProcessStreamResponse:
            try:
                return await self._process_one(each, caller, metadata)
            except (PipestreamError, TimeoutError, grpc.aio.AioRpcError) as error:
                return pb.ProcessStreamResponse(success=False, message=_failure_of(error)[1])

        async for answered in in_order(requests, answer, self._window, self._overview.stopping):
            yield answered

    async def _process_one(
        self, each: pb.ProcessStreamRequest, caller: Caller, metadata: Metadata
    ) -> pb.ProcessStreamResponse:
        """Process one message of a stream, here or at the owner of its key."""
        request = pb.ProcessNodeRequest(stream=each.stream, routing_condition=each.routing_condition)
        try:
            return _stream_response(each, await self._nodes.process(request, _with_own_key(caller, each)))
        except NotOwner as error:
            # As a stream, too: the answer has more than that of a single call. The owner makes the same key.
            return await self._forwarder.call_in_stream(
                error, _STREAM, each, pb.ProcessStreamResponse, metadata, caller.left_s
            )

    async def RouteToCluster(self, request: pb.RouteToClusterRequest, context: Any) -> pb.RouteToClusterResponse:
        caller = read_caller(context)
        try:
            return await self._bridge.route(request, caller)
        except NotOwner as error:
            metadata = context.invocation_metadata() or ()
            return await self._forward(error, _ROUTE, request, pb.RouteToClusterResponse, metadata, caller, context)

    async def GetHealth(self, _request: pb.GetHealthRequest, _context: Any) -> pb.GetHealthResponse:
        return await self._overview.health()

    async def GetTopicSubscriptions(
        self, request: pb.GetTopicSubscriptionsRequest, _context: Any
    ) -> pb.GetTopicSubscriptionsResponse:
        return await self._overview.subscriptions(request.engine_instance_id)

    async def UpdateTopicSubscriptions(
        self, request: pb.UpdateTopicSubscriptionsRequest, _context: Any
    ) -> pb.UpdateTopicSubscriptionsResponse:
        return await self._overview.update_subscriptions(request)

    async def GetDatasourceInstance(
        self, request: pb.GetDatasourceInstanceRequest, _context: Any
    ) -> pb.GetDatasourceInstanceResponse:
        return self._overview.datasource_instance(request.datasource_id)

    async def _forward(
        self,
        error: NotOwner,
        method: str,
        request: Message,
        response_type: type[Response],
        metadata: Metadata,
        caller: Caller,
        context: Any,
    ) -> Response:
        try:
            return await self._forwarder.call(error, method, request, response_type, metadata, caller.left_s)
        except grpc.aio.AioRpcError as answered:
            await relay(context, answered)
            raise

    async def _hand_on(
        self, error: NotOwner, request: pb.IntakeHandoffRequest, caller: Caller, metadata: Metadata
    ) -> pb.IntakeHandoffResponse:
        own = [(name, value) for name, value in metadata if name != IDEMPOTENCY_KEY]
        if caller.key:
            own.append((IDEMPOTENCY_KEY, caller.key))
        return await self._forwarder.call(error, _HANDOFF, request, pb.IntakeHandoffResponse, own, caller.left_s)


def _stream_answer(
    request: pb.IntakeHandoffStreamRequest, status: Status, response: pb.IntakeHandoffResponse, _error_code: str
) -> pb.IntakeHandoffStreamResponse:
    answer = pb.IntakeHandoffStreamResponse(
        handoff_id=request.handoff_id, sequence=request.sequence, status=status, response=response
    )
    answer.acked_at.seconds, answer.acked_at.nanos = divmod(time.time_ns(), 1_000_000_000)
    return answer


def _tell(answered: Answered | Failure | grpc.aio.AioRpcError) -> Told:
    """Return the answer to one document of many."""
    if not isinstance(answered, Answered):
        return _rejected(answered)
    if answered.response.accepted:
        return Status.STATUS_ACCEPTED, answered.response, ""
    status = Status.STATUS_RETRYABLE_REJECTED if answered.may_retry else Status.STATUS_PERMANENT_REJECTED
    return status, answered.response, "INVALID_STATE" if answered.may_retry else "NOT_FOUND"


def _rejected(error: PipestreamError | TimeoutError | grpc.aio.AioRpcError) -> Told:
    code, message, may_retry = _failure_of(error)
    status = Status.STATUS_RETRYABLE_REJECTED if may_retry else Status.STATUS_PERMANENT_REJECTED
    return status, pb.IntakeHandoffResponse(accepted=False, message=message), code


def _failure_of(error: PipestreamError | TimeoutError | grpc.aio.AioRpcError) -> tuple[str, str, bool]:
    """Return the code and the message of an error, of this process or of the owner, and whether to try again."""
    if isinstance(error, grpc.aio.AioRpcError):
        code = str(dict(error.trailing_metadata() or ()).get(ERROR_CODE, error.code().name))
        return code, f"{code}: {error.details()}", error.code() in TRANSIENT_CODES
    may_retry = isinstance(error, TimeoutError) or error.transient
    return status_of(error).error_code, coded_message(error), may_retry


def _with_own_key(caller: Caller, message: pb.ProcessStreamRequest) -> Caller:
    """Return the caller of one message of a stream: the key of the whole call is told apart by where the stream is."""
    stream = message.stream
    if not caller.key:
        return caller
    return caller._replace(key=f"{caller.key}/{stream.stream_id}/{stream.current_node_id}/{stream.hop_count}")


def _stream_response(request: pb.ProcessStreamRequest, processed: Processed) -> pb.ProcessStreamResponse:
    response = processed.response
    return pb.ProcessStreamResponse(
        success=response.success,
        message=response.error_message,
        updated_stream=processed.stream,
        metrics=pb.ProcessingMetrics(
            processing_time_ms=response.processing_time_ms,
            node_id=request.stream.current_node_id,
            module_id=response.module_id,
            cache_hit=processed.is_repeat,
            hop_count=processed.hop_count,
        ),
    )

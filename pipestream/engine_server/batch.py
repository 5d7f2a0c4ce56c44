"""``HandoffService``: many documents in one message, an answer for each."""

# ruff: noqa: N802 - methods have the names of the protocol

from __future__ import annotations

from typing import Any

from pipestream.engine_server.calls import Caller, read_caller
from pipestream.engine_server.service import EngineService
from pipestream.errors import RequestInvalid
from pipestream.gen.pipestream.live.v1 import handoff_service_pb2 as pb
from pipestream.gen.pipestream.live.v1.handoff_service_pb2_grpc import HandoffServiceServicer

NAME = "pipestream.live.v1.HandoffService"
# A message has a limit of bytes too; this bounds what thousands of tiny documents may start at once.
MOST_HANDOFFS = 1_000


class HandoffBatches(HandoffServiceServicer):
    """Takes batches in. Each document is accepted on its own, with its own key."""

    def __init__(self, engine: EngineService) -> None:
        self._engine = engine

    async def HandoffBatch(self, request: pb.HandoffBatchRequest, context: Any) -> pb.HandoffBatchResponse:
        if len(request.handoffs) > MOST_HANDOFFS:
            raise RequestInvalid(f"{len(request.handoffs)} documents in one message; at most {MOST_HANDOFFS} are taken")
        caller = read_caller(context)
        metadata = context.invocation_metadata() or ()
        path, traceparent, deadline = caller.path, caller.traceparent, caller.deadline
        handoffs = [(each.request, Caller(each.key, path, traceparent, deadline)) for each in request.handoffs]
        answered = pb.HandoffBatchResponse()
        for status, response, error_code in await self._engine.hand_off_many(handoffs, metadata):
            answered.answers.add(status=status, response=response, error_code=error_code)
        return answered

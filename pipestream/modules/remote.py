"""Modules that are gRPC services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import json_format

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2 as service
from pipestream.gen.ai.pipestream.data.module.v1.module_service_pb2_grpc import PipeStepProcessorServiceStub
from pipestream.modules.module import Answer, HopStatus
from pipestream.rpc.channels import open_channel
from pipestream.wire import ProcessDataRequest

if TYPE_CHECKING:
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc, ProcessDataResponse

IDEMPOTENCY_KEY = "pipestream-idempotency-key"
ATTEMPT = "pipestream-attempt"
TRACE_ID = "pipestream-trace-id"

TRANSIENT_CODES = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    # The answer of a server with full queues. A message over gRPC's size limit gets it too, and costs a few attempts.
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
}


class GrpcModule:
    """Calls ``PipeStepProcessorService.ProcessData`` at ``target``, with ``context.timeout_s`` as deadline.

    A crash may repeat a call, so it carries the idempotency key in its metadata.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._channel = open_channel(target)
        self._stub: Any = PipeStepProcessorServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def process(self, document: PipeDoc, context: ModuleContext) -> Answer:
        request = _request(document, context)
        metadata = [(IDEMPOTENCY_KEY, context.idempotency_key), (ATTEMPT, str(context.attempt))]
        if context.trace_id:
            metadata.append((TRACE_ID, context.trace_id))
        try:
            response = self._stub.ProcessData(request, timeout=context.timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            raise self._translate(error, context) from None
        return self._answer(document, response)

    def close(self) -> None:
        self._channel.close()

    def _answer(self, document: PipeDoc, response: ProcessDataResponse) -> Answer:
        if response.outcome == service.PROCESSING_OUTCOME_FAILURE:
            raise self._failure(response)
        if response.outcome == service.PROCESSING_OUTCOME_SKIPPED:
            return Answer([document], HopStatus.SKIPPED)
        documents = [response.output_doc] if response.HasField("output_doc") else []
        if response.outcome == service.PROCESSING_OUTCOME_PARTIAL:
            return Answer(
                documents,
                HopStatus.PARTIAL,
                tuple(response.partial_failure_details),
                _details(response),
                list(response.log_entries),
            )
        if not documents and response.outcome == service.PROCESSING_OUTCOME_UNSPECIFIED:
            # An unimplemented service may answer an empty message too; it must not end a document.
            raise ModuleFailed(f"grpc:{self._target} answered with neither an outcome nor a document")
        return Answer(documents)

    def _failure(self, response: ProcessDataResponse) -> ModuleFailed:
        details = _details(response)
        return ModuleFailed(
            f"grpc:{self._target}: {_reason(response)}",
            error_type=str(details.pop("type", "")),
            trace=str(details.pop("traceback", "")),
            details=details,
            log_entries=list(response.log_entries),
        )

    def _translate(self, error: grpc.RpcError, context: ModuleContext) -> ModuleFailed | ModuleUnavailable:
        code = error.code()
        details = (error.details() or "")[:500]
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return ModuleTimeout(f"grpc:{self._target} took longer than {context.timeout_s:g} s")
        message = f"grpc:{self._target}: {code.name}: {details}"
        return ModuleUnavailable(message) if code in TRANSIENT_CODES else ModuleFailed(message, error_type=code.name)


def _request(document: PipeDoc, context: ModuleContext) -> ProcessDataRequest:
    request = ProcessDataRequest(
        document=document,
        metadata=service.ServiceMetadata(
            pipeline_name=context.graph_id,
            pipe_step_name=context.node_id,
            stream_id=context.stream_id,
            current_hop_number=context.hop,
        ),
    )
    json_format.ParseDict(dict(context.config), request.config.json_config)
    request.config.config_params.update(context.config_params)
    return request


def _details(response: ProcessDataResponse) -> dict[str, Any]:
    details: dict[str, Any] = json_format.MessageToDict(response.error_details)
    return details


def _reason(response: ProcessDataResponse) -> str:
    """Return a failed module's message: its error details, else its log, else that it gave no reason."""
    if response.HasField("error_details") and response.error_details.fields:
        return json_format.MessageToJson(response.error_details, indent=None)[:500]
    messages = [*response.partial_failure_details, *(entry.message for entry in response.log_entries)]
    return "; ".join(messages)[:500] or "failed without saying why"

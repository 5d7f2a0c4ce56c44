"""Modules that are gRPC services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from pipestream.errors import ModuleFailed, ModuleTimeout, ModuleUnavailable
from pipestream.gen.ai.pipestream.data.module.v1 import module_service_pb2 as service
from pipestream.modules.connection import ConnectionLimits, SharedConnection
from pipestream.modules.module import Answer, HopStatus, ModuleProfile
from pipestream.modules.statuses import TRANSIENT_CODES, code_of_details, is_transient_code
from pipestream.rpc.security import ChannelSecurity
from pipestream.telemetry.tracing import trace_metadata
from pipestream.wire import ProcessDataRequest

if TYPE_CHECKING:
    from pipestream.modules.health import Health
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc, ProcessDataResponse

__all__ = ["ATTEMPT", "IDEMPOTENCY_KEY", "TRACE_ID", "TRANSIENT_CODES", "GrpcModule"]

IDEMPOTENCY_KEY = "pipestream-idempotency-key"
ATTEMPT = "pipestream-attempt"
TRACE_ID = "pipestream-trace-id"


class GrpcModule:
    """Calls ``PipeStepProcessorService.ProcessData`` at ``target``, with ``context.timeout_s`` as deadline.

    A crash may repeat a call, so it carries the idempotency key in its metadata. What holds for all calls of a module
    in a process (limit, breaker, health) is in ``connection.py``.
    """

    def __init__(
        self, target: str, security: ChannelSecurity | None = None, limits: ConnectionLimits | None = None
    ) -> None:
        self._target = target
        self._shared = SharedConnection(target, security, limits)

    def process(self, document: PipeDoc, context: ModuleContext) -> Answer:
        request = _request(document, context)
        metadata = [(IDEMPOTENCY_KEY, context.idempotency_key), (ATTEMPT, str(context.attempt))]
        metadata += trace_metadata(context.trace_id, context.stream_id)
        if context.trace_id:
            metadata.append((TRACE_ID, context.trace_id))
        stub = self._shared.connection.stub
        response = self._shared.connection.call(
            lambda timeout_s: stub.ProcessData(request, timeout=timeout_s, metadata=metadata), context
        )
        return self._answer(document, response)

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:
        """Return what the service says about itself; see ``Connection.profile``."""
        return self._shared.connection.profile(context)

    def health(self) -> tuple[Health, str]:
        """Ask the service how it is; return that, and why it did not answer."""
        return self._shared.connection.health()

    @property
    def held_back(self) -> str:
        """Why its calls are held back; empty: they are not."""
        return self._shared.connection.held_back

    def close(self) -> None:
        self._shared.close()

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

    def _failure(self, response: ProcessDataResponse) -> ModuleFailed | ModuleUnavailable:
        details = _details(response)
        message = f"grpc:{self._target}: {_reason(response)}"
        code = code_of_details(details)
        if is_transient_code(code):
            kind = ModuleTimeout if code == "TIMEOUT" else ModuleUnavailable
            return kind(message, error_type=code)
        return ModuleFailed(
            message,
            error_type=str(details.pop("type", "")) or code,
            trace=str(details.pop("traceback", "")),
            details=details,
            log_entries=list(response.log_entries),
        )


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

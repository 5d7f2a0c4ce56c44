"""Hand a stream over to the remote engine in which a node lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from pipestream.engine.engine_calls import call_when_ready, check_processed, sendable
from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.modules.statuses import TRANSIENT_CODES
from pipestream.rpc.channels import PLAIN_TEXT, open_channel
from pipestream.rpc.security import ChannelSecurity, channel_security
from pipestream.telemetry.tracing import trace_metadata
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext
    from pipestream.settings import Settings


class RemoteEngine:
    """Calls ``EngineV1Service.ProcessNode`` at ``target``. A crash may repeat a call; its key tells repeats."""

    def __init__(self, target: str, security: ChannelSecurity = PLAIN_TEXT, settings: Settings | None = None) -> None:
        """
        :param settings: where a document goes that is too large for a message, and how long an engine that is not ready
            is waited for. Without them a document is sent as it is, and no engine is waited for.
        """
        self._name = f"engine {target}"
        self._settings = settings
        self._wait_s = settings.module_wait_s if settings else 0.0
        self._channel = open_channel(target, security)
        self._stub: Any = EngineV1ServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        """Return once the engine has taken the stream.

        :raises ModuleUnavailable: it could not be reached, or took too long.
        :raises ModuleDown: it cannot process any stream at the node, and that did not change in time.
        :raises ModuleFailed: it answered with an error.
        :raises TimeBudgetSpent: the deadline passed while the engine was waited for.
        """
        request = ProcessNodeRequest(stream=sendable(stream, self._settings))
        trace = trace_metadata(stream.metadata.trace_id, stream.stream_id)
        metadata = [(IDEMPOTENCY_KEY, idempotency_key), *trace]
        call_when_ready(
            lambda left_s: self._call(request, metadata, left_s), self._name, self._wait_s, timeout_s, deadline
        )

    def _call(self, request: ProcessNodeRequest, metadata: list[tuple[str, str]], timeout_s: float) -> None:
        try:
            response = self._stub.ProcessNode(request, timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            code = error.code()
            message = f"{self._name}: {code.name}: {(error.details() or '')[:500]}"
            if code in TRANSIENT_CODES:
                raise ModuleUnavailable(message) from None
            raise ModuleFailed(message, error_type=code.name) from None
        check_processed(response, self._name)

    def close(self) -> None:
        """Give the connection back."""
        self._channel.close()


def open_engine(target: str, context: PluginContext) -> RemoteEngine:
    """Make the transport ``grpc``."""
    return RemoteEngine(target, channel_security(context.settings), context.settings)

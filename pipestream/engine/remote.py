"""Hand a stream over to the remote engine in which a node lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from pipestream.errors import ModuleFailed, ModuleUnavailable
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import ProcessNodeRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.modules.statuses import TRANSIENT_CODES
from pipestream.rpc.channels import PLAIN_TEXT, open_channel
from pipestream.rpc.security import ChannelSecurity, channel_security
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.plugins import PluginContext


class RemoteEngine:
    """Calls ``EngineV1Service.ProcessNode`` at ``target``. A crash may repeat a call; its key tells repeats."""

    def __init__(self, target: str, security: ChannelSecurity = PLAIN_TEXT) -> None:
        self._target = target
        self._channel = open_channel(target, security)
        self._stub: Any = EngineV1ServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def process(self, stream: PipeStream, idempotency_key: str, timeout_s: float) -> None:
        """Return once the engine has taken the stream.

        :raises ModuleUnavailable: it could not be reached, or took too long.
        :raises ModuleFailed: it answered with an error.
        """
        metadata = [(IDEMPOTENCY_KEY, idempotency_key)]
        try:
            response = self._stub.ProcessNode(ProcessNodeRequest(stream=stream), timeout=timeout_s, metadata=metadata)
        except grpc.RpcError as error:
            code = error.code()
            message = f"engine {self._target}: {code.name}: {(error.details() or '')[:500]}"
            if code in TRANSIENT_CODES:
                raise ModuleUnavailable(message) from None
            raise ModuleFailed(message, error_type=code.name) from None
        if not response.success:
            raise ModuleFailed(
                f"engine {self._target}: {response.error_message}", log_entries=list(response.log_entries)
            )

    def close(self) -> None:
        """Give the connection back."""
        self._channel.close()


def open_engine(target: str, context: PluginContext) -> RemoteEngine:
    """Make the transport ``grpc``."""
    return RemoteEngine(target, channel_security(context.settings))

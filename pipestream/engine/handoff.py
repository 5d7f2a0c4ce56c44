"""Let a node's documents be processed by a running engine instead of this process: what a sidecar with an engine does.

The node is treated as one that lives in a remote engine, so that hydration, retries, dead letters and the ledger are
those of every drain. A document of a datasource is handed in by ``IntakeHandoff``, every other by ``ProcessNode``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc

from pipestream.engine.engine_calls import EngineNotReady, call_when_ready, check_processed, sendable
from pipestream.engine.process import Services
from pipestream.engine.services import open_services
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, ProcessNodeRequest
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.graph.proto import BuiltGraph
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.modules.statuses import error_of_status
from pipestream.rpc.channels import PLAIN_TEXT, open_channel
from pipestream.rpc.security import ChannelSecurity, channel_security
from pipestream.settings import Settings
from pipestream.telemetry.tracing import trace_metadata
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.plugins import PluginContext

PATH = "pipestream-path"
"""Request metadata of a handoff. Without ``direct``, an engine puts a large document on the intake topic, from which it
has just come."""

Metadata = list[tuple[str, str]]


def open_handoff(
    version: BuiltGraph, settings: Settings, node_id: str, engine: str, is_intake: bool
) -> tuple[BuiltGraph, AbstractContextManager[Services]]:
    """Return a version of a graph in which a node lives in an engine, and the services that call it there."""
    version = hand_over(version, node_id, engine)

    def open_engine(target: str, context: PluginContext) -> EngineHandoff:
        security = channel_security(context.settings)
        return EngineHandoff(target, security, is_intake=is_intake, wait_s=settings.module_wait_s, settings=settings)

    return version, open_services(version, settings, [node_id], open_engine=open_engine)


def hand_over(version: BuiltGraph, node_id: str, engine: str) -> BuiltGraph:
    """Return a version of a graph in which a node lives in an engine. It keeps its hash: it is the same graph."""
    graph: Graph = version.graph
    nodes = tuple(replace(node, engine=engine) if node.node_id == node_id else node for node in graph.nodes)
    return replace(version, graph=replace(graph, nodes=nodes))


class EngineHandoff:
    """Hands streams to an engine. A crash repeats the last call with the same key, which the engine recognises.

    A call that the engine answers with a status of its own is for ``follow`` to repeat or to give up. An engine that
    is not there, or that cannot take any document of the node as it is, is waited for here: no document is to blame.
    """

    def __init__(
        self,
        target: str,
        security: ChannelSecurity = PLAIN_TEXT,
        *,
        is_intake: bool,
        wait_s: float,
        settings: Settings | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        :param wait_s: how long an engine that is not there, or not ready, is waited for.
        :param settings: where a document goes that is too large for a message; without them it is sent as it is.
        """
        self._name = f"engine {target}"
        self._is_intake = is_intake
        self._wait_s = wait_s
        self._settings = settings
        self._sleep = sleep
        self._channel = open_channel(target, security)
        self._stub: Any = EngineV1ServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        """Return once the engine has taken the stream, and will not lose it.

        :raises ModuleDown: it is not there, or not ready, and that did not change in time.
        :raises ModuleUnavailable: it is there, and the same call may succeed later.
        :raises ModuleFailed: it refuses the stream.
        :raises TimeBudgetSpent: the deadline passed while the engine was waited for.
        """
        sent = PipeStream()
        sent.CopyFrom(sendable(stream, self._settings))
        # A trace that this process began is another one at a repeat, and the same key must have the same content. So it
        # goes with the call and not with the stream.
        sent.metadata.ClearField("trace_id")
        trace = trace_metadata(stream.metadata.trace_id, stream.stream_id)
        metadata = [(IDEMPOTENCY_KEY, idempotency_key), *trace]
        call_when_ready(
            lambda left_s: self._call(sent, metadata, left_s),
            self._name,
            self._wait_s,
            timeout_s,
            deadline,
            sleep=self._sleep,
        )

    def close(self) -> None:
        """Give the connection back."""
        self._channel.close()

    def _call(self, stream: PipeStream, metadata: Metadata, timeout_s: float) -> None:
        try:
            if self._is_intake:
                self._hand_in(stream, metadata, timeout_s)
            else:
                self._process_node(stream, metadata, timeout_s)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise EngineNotReady(error.details() or "") from None
            raise error_of_status(error, self._name, timeout_s) from None

    def _hand_in(self, stream: PipeStream, metadata: Metadata, timeout_s: float) -> None:
        request = IntakeHandoffRequest(
            stream=stream,
            datasource_id=stream.metadata.datasource_id,
            account_id=stream.metadata.account_id,
            target_entry_node_id=stream.current_node_id,
            doc_stored_in_repo=True,
        )
        # The engine names the stream after the key.
        request.stream.ClearField("stream_id")
        answer = self._stub.IntakeHandoff(request, timeout=timeout_s, metadata=[*metadata, (PATH, "direct")])
        if not answer.accepted:
            # What is wrong with a document is a status. This answer speaks of the graphs that the engine serves.
            raise EngineNotReady(f"it does not accept documents: {answer.message}")

    def _process_node(self, stream: PipeStream, metadata: Metadata, timeout_s: float) -> None:
        request = ProcessNodeRequest(stream=stream)
        answer = self._stub.ProcessNode(request, timeout=timeout_s, metadata=metadata)
        check_processed(answer, self._name)

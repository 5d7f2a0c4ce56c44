"""The heart of the product: what one node does to one document.

Whatever carries streams calls ``process_node``, as the drain does. It knows neither where a stream comes from nor
where an emission goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from pipestream.engine.blobs import BlobSource, hydrate, hydration_of, settle_blobs
from pipestream.engine.envelopes import envelope_id, envelope_place, forget_name, is_named, name_child
from pipestream.engine.graph_conditions import Conditions
from pipestream.engine.history import record_failure, record_hop, this_instance
from pipestream.engine.progress import Progress
from pipestream.errors import (
    HopsExceeded,
    ModuleFailed,
    ModuleUnavailable,
    PipestreamError,
    RecordInvalid,
    StoreRefused,
    StoreUnavailable,
    TimeBudgetSpent,
)
from pipestream.graph.model import Edge, Graph, Node
from pipestream.ids import derive_child_id
from pipestream.modules.module import Answer, EnvelopePlace, HopStatus, Module, ModuleContext
from pipestream.modules.resolve import IdentityModule
from pipestream.modules.transports import EdgeTransport
from pipestream.routing.mappings import apply_mappings
from pipestream.telemetry.meter import Meter, NoMeter
from pipestream.telemetry.tracing import span
from pipestream.topic_names import node_topic
from pipestream.wire import PipeDoc, PipeStream

HAPPY = "happy-end"
ERROR = "error-end"
"""The names under which documents that ended are counted, whatever the graph calls its end nodes."""


class Outcome(Enum):
    """Which way a stream leaves a node."""

    EDGE = "edge"
    HAPPY_END = HAPPY
    ERROR_END = ERROR
    DEAD_LETTER = "dead-letter"
    HANDED_OVER = "handed-over"
    """A remote engine has taken it; there is nothing to send."""


@dataclass(frozen=True, slots=True)
class Emission:
    """A stream that leaves a node. Its document is inline; its sender may store it and send a reference."""

    outcome: Outcome
    stream: PipeStream
    node_id: str
    """The node it leaves."""
    to_node_id: str = ""
    edge: Edge | None = None
    error: PipestreamError | None = None
    attempts: int = 1
    is_decided: bool = False
    """Whether conditions decided its way. Of the branches of one document, only the first says so."""

    @property
    def counted_as(self) -> str:
        """Return the name under which the ledger counts it."""
        return self.edge.edge_id if self.edge else self.outcome.value


@dataclass(frozen=True, slots=True)
class Services:
    """What ``process_node`` needs from the world."""

    conditions: Conditions
    module_of: Callable[[Node], Module]
    engine_of: Callable[[Node], EdgeTransport]
    cel_engine: str
    module_timeout_s: float
    graph_hash: str
    """The version of the graph, for the history."""
    instance: str = field(default_factory=this_instance)
    """Who processes, for the history."""
    now: Callable[[], float] = time.time
    meter: Meter = field(default_factory=NoMeter)
    blobs: BlobSource | None = None
    """Where parsers' blobs come from; None: nowhere, because modules are not really called."""
    module_wait_s: float = 0.0
    """How long a call is held back while its module is down."""
    progress: Progress | None = None
    """Who is told how far each document is."""

    def report(self, place: EnvelopePlace | None, status: str) -> None:
        """Say how far a document is, if anybody wants to know."""
        if self.progress is not None and place is not None:
            self.progress.report(place, status)


def process_node(
    stream: PipeStream, graph: Graph, services: Services, attempt: int = 1, deadline: float | None = None
) -> list[Emission]:
    """Run a stream's current node and return where its documents go.

    0. A node that lives in a remote engine is processed there; nothing comes back.
    1. Filters: a document that fails one skips the module and is still routed.
    2. Pre-mappings, module, post-mappings. No document from the module: its route ends happily.
    3. Every document goes along every edge that matches it; where none does, its route ends happily.

    :param deadline: when the time budget of the stream ends, by ``time.monotonic``; None: it has none.
    :raises TransientError: the same call may succeed later.
    :raises TerminalError: it never will; ``fail`` says where the stream goes then.
    """
    node = graph.node_by_id.get(stream.current_node_id)
    if node is None:
        raise RecordInvalid(
            f"graph {graph.graph_id} has no node {stream.current_node_id!r}; is it an older graph's record?"
        )
    if stream.hop_count >= graph.max_hops:
        raise HopsExceeded(f"{stream.hop_count} hops, and graph {graph.graph_id} allows {graph.max_hops}")

    if node.engine:
        timeout_s = _timeout_s(node, services, deadline)
        services.engine_of(node).process(stream, _idempotency_key(stream, node), timeout_s, deadline)
        return [Emission(Outcome.HANDED_OVER, stream, node.node_id)]

    started, begun = services.now(), time.perf_counter()
    place = envelope_place(stream, graph) if services.progress or node.speaks_envelopes else None
    services.report(place, "received")
    answer = _run_module(stream, node, graph, services, attempt, deadline, place)
    done = record_hop(stream, node, graph, services, started, answer)
    status = "success"
    if node.is_end:
        status, emissions = "end_consumed", []
    elif not answer.documents:
        done.document.CopyFrom(stream.document)
        status, emissions = "empty_response", [_end_happily(done, node, graph)]
    else:
        emissions = _route_all(done, answer.documents, node, graph, services.conditions)
    services.report(place, "completed")
    if node.is_end and services.progress is not None:
        services.progress.final(envelope_id(stream), succeeded=node.node_id != graph.error_end)
    services.meter.processed(node_topic(graph.cluster_id, node.node_id), status, [time.perf_counter() - begun])
    return emissions


def _route_all(
    stream: PipeStream, documents: Sequence[PipeDoc], node: Node, graph: Graph, conditions: Conditions
) -> list[Emission]:
    emissions: list[Emission] = []
    for index, document in enumerate(documents):
        child = stream if len(documents) == 1 else _copy(stream)
        if index:
            child.stream_id = derive_child_id(stream.stream_id, node.node_id, f"document/{index}")
            if node.speaks_envelopes or is_named(stream):
                name_child(child, stream, index)
        child.document.CopyFrom(document)
        emissions.extend(_route(child, node, graph, conditions))
    return emissions


def fail(
    stream: PipeStream,
    graph: Graph,
    error: PipestreamError,
    attempts: int,
    services: Services,
    started: float | None = None,
) -> Emission:
    """Return where a stream goes that a node could not process: the graph's error-end, else the dead letters.

    :param started: when the first attempt began, for the history.
    """
    services.meter.failed(node_topic(graph.cluster_id, stream.current_node_id), error)
    failed = _copy(stream)
    record_failure(failed, graph, services, error, attempts, started)
    outcome = Outcome.ERROR_END if graph.error_end else Outcome.DEAD_LETTER
    return Emission(outcome, failed, stream.current_node_id, graph.error_end, error=error, attempts=attempts)


def _run_module(
    stream: PipeStream,
    node: Node,
    graph: Graph,
    services: Services,
    attempt: int,
    deadline: float | None,
    place: EnvelopePlace | None,
) -> Answer:
    document = stream.document
    if node.filters:
        activation = services.conditions.activation(stream, document)
        if not services.conditions.passes_filters(node, activation):
            return Answer([document], HopStatus.SKIPPED)
    document = apply_mappings(node.pre_mappings, stream, document, services.cel_engine)
    if isinstance(services.module_of(node), IdentityModule) and not node.parser:
        _timeout_s(node, services, deadline)  # the time budget ends here, too
        services.report(place, "processing")
        answer = Answer([document])
    else:
        answer = _ask_module(document, stream, node, graph, services, attempt, deadline, place)
    if not node.post_mappings:
        return answer
    mapped = [apply_mappings(node.post_mappings, stream, each, services.cel_engine) for each in answer.documents]
    return replace(answer, documents=mapped)


def _ask_module(
    document: PipeDoc,
    stream: PipeStream,
    node: Node,
    graph: Graph,
    services: Services,
    attempt: int,
    deadline: float | None,
    place: EnvelopePlace | None,
) -> Answer:
    """Hydrate a document, call the node's module, and put references back in place of blobs."""
    context = ModuleContext(
        graph_id=graph.graph_id,
        node_id=node.node_id,
        stream_id=stream.stream_id,
        hop=stream.hop_count + 1,
        attempt=attempt,
        trace_id=stream.metadata.trace_id,
        idempotency_key=_idempotency_key(stream, node),
        config=node.config,
        config_params=node.config_params,
        timeout_s=_timeout_s(node, services, deadline),
        wait_s=services.module_wait_s,
        deadline=deadline,
        protocol=node.protocol or "payload",
        envelope=place,
        stream_error=stream.metadata.stream_error if node.node_id == graph.error_end else None,
    )
    rule = hydration_of(stream, node, graph)
    hydrated = hydrate(
        document, stream.metadata.account_id, rule, node, services.module_of(node), context, services.blobs
    )
    services.report(place, "processing")
    answer = _call_module(hydrated.document, context, node, graph, services)
    settled = settle_blobs(answer.documents, hydrated, rule)
    return answer if settled is answer.documents else replace(answer, documents=settled)


def _call_module(document: PipeDoc, context: ModuleContext, node: Node, graph: Graph, services: Services) -> Answer:
    error: PipestreamError | None = None
    begun = time.perf_counter()
    try:
        with span(f"module {node.node_id}"):
            answered = services.module_of(node).process(document, context)
    except (StoreUnavailable, StoreRefused) as raised:
        # A store of the module's own. Only the store of blobs stops the documents behind this one.
        kind = ModuleUnavailable if raised.transient else ModuleFailed
        error = kind(str(raised), error_type=type(raised).__name__)
        raise error from raised
    except PipestreamError as raised:
        error = raised
        raise
    finally:
        if node.module:
            queue = node_topic(graph.cluster_id, node.node_id)
            services.meter.module_called(queue, time.perf_counter() - begun, error)
    return answered if isinstance(answered, Answer) else Answer(answered)


def _route(stream: PipeStream, node: Node, graph: Graph, conditions: Conditions) -> list[Emission]:
    edges: Sequence[Edge] = graph.edges_from.get(node.node_id, ())
    is_decided = node.node_id in conditions.deciding
    if edges:
        edges = conditions.matching_edges(node.node_id, conditions.activation(stream, stream.document))
    if not edges:
        return [_end_happily(stream, node, graph, is_decided=is_decided)]
    emissions = []
    for index, edge in enumerate(edges):
        _check_edge_hops(stream, edge)
        branch = stream if index == len(edges) - 1 else _copy(stream)
        if index:
            # Branches may meet again at one node; with one id they would overwrite each other's objects there.
            branch.stream_id = derive_child_id(stream.stream_id, node.node_id, f"edge/{edge.edge_id}")
            forget_name(branch)
        branch.current_node_id = edge.to_node_id
        branch.cluster_id = edge.to_cluster_id or graph.cluster_id
        emissions.append(
            Emission(Outcome.EDGE, branch, node.node_id, edge.to_node_id, edge, is_decided=is_decided and not index)
        )
    return emissions


def _check_edge_hops(stream: PipeStream, edge: Edge) -> None:
    if not edge.max_hops:
        return
    path = stream.processing_path
    taken = sum(pair == (edge.from_node_id, edge.to_node_id) for pair in pairwise(path))
    if taken >= edge.max_hops:
        raise HopsExceeded(f"edge {edge.edge_id} was taken {taken} times, and it allows {edge.max_hops}")


def _end_happily(stream: PipeStream, node: Node, graph: Graph, *, is_decided: bool = False) -> Emission:
    stream.current_node_id = graph.happy_end
    return Emission(Outcome.HAPPY_END, stream, node.node_id, graph.happy_end, is_decided=is_decided)


def _timeout_s(node: Node, services: Services, deadline: float | None) -> float:
    own = node.timeout_s or services.module_timeout_s
    if deadline is None:
        return own
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeBudgetSpent(f"node {node.node_id}")
    return min(own, left_s)


def _idempotency_key(stream: PipeStream, node: Node) -> str:
    return f"{stream.stream_id}/{node.node_id}/{stream.hop_count}"


def _copy(stream: PipeStream) -> PipeStream:
    copy = PipeStream()
    copy.CopyFrom(stream)
    return copy

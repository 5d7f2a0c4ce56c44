"""Tell where a document would go in a graph, and why, without running any module.

It walks the real ``process_node``: filters, mappings, conditions and hop limits are those of a drain. Only modules and
remote engines are replaced. A module passes the document on unchanged, so behind one that changes what a condition
looks at the real route may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pipestream.engine.graph_conditions import Activation, Conditions
from pipestream.engine.process import Emission, Outcome, Services, fail, process_node
from pipestream.errors import ConditionError, PipestreamError
from pipestream.graph.flow import Way, destination_of
from pipestream.graph.model import Edge, Graph, Node
from pipestream.modules.resolve import IdentityModule
from pipestream.wire import PipeDoc, PipeStream

if TYPE_CHECKING:
    from pipestream.engine.remote import RemoteEngine
    from pipestream.modules.module import Module

MAX_STEPS: Final = 200
"""The most nodes that are shown. Branches multiply, and nobody reads more."""

NOT_RUN: Final = "modules are not run: every condition sees the document as it is before any of them"


@dataclass(frozen=True, slots=True)
class ExplainedFilter:
    """A filter of a node; ``holds`` is None where it failed."""

    condition: str
    holds: bool | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedEdge:
    """An edge out of a node; ``matches`` is None where its condition failed, or was never reached."""

    edge_id: str
    to_node_id: str
    condition: str
    matches: bool | None
    error: str
    destination: str
    """Where the document goes: a topic, a remote engine, or on in the same task."""
    topic: str
    """The topic it is written to; empty: it stays in the task."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens at a node that runs. ``number`` counts from 1; ``came_from`` is 0 for an entry."""

    number: int
    came_from: int
    node_id: str
    hop: int
    filters: tuple[ExplainedFilter, ...]
    edges: tuple[ExplainedEdge, ...]
    note: str
    module: str = ""
    """The module that would be called here, and may change what the conditions see."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The way of one document through a graph."""

    graph_id: str
    doc_id: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...]

    def render(self) -> list[str]:
        """The explanation as lines of text."""
        lines = [f"document {self.doc_id or '(no id)'} in graph {self.graph_id}"]
        # Before the steps: a reader who sees a ✗ must already know which document was asked about.
        lines += [f"note: {note}" for note in self.notes]
        for step in self.steps:
            came_from = f", from step {step.came_from}" if step.came_from else ""
            not_run = f", without {step.module}" if step.module else ""
            lines.append(f"{step.number}. {step.node_id} (hop {step.hop}{came_from}{not_run})")
            lines += [_filter_line(each) for each in step.filters]
            lines += [_edge_line(each) for each in step.edges]
            if step.note:
                lines.append(f"   {step.note}")
        return lines


def explain(
    graph: Graph,
    document: PipeDoc,
    stream: PipeStream | None = None,
    *,
    engine: str,
    start_node_id: str = "",
) -> Explanation:
    """Follow ``document`` from ``start_node_id``, else the stream's node, else every entry of the graph.

    :raises ConditionError: the graph was never checked: a condition does not compile.
    """
    tracer = _Tracer(graph, engine)
    services = Services(
        conditions=tracer,
        module_of=tracer.module_of,
        engine_of=lambda _: cast("RemoteEngine", _NoEngine()),
        cel_engine=engine,
        module_timeout_s=0,
        graph_hash="",
        now=lambda: 0.0,
    )
    waiting: deque[tuple[PipeStream, int]] = deque()
    for node_id in _entries(graph, stream or PipeStream(), start_node_id):
        begin = PipeStream()
        begin.CopyFrom(stream or PipeStream())
        begin.document.CopyFrom(document)
        begin.current_node_id = node_id
        waiting.append((begin, 0))
    steps: list[Step] = []
    while waiting and len(steps) < MAX_STEPS:
        at, came_from = waiting.popleft()
        step, onward = _step(graph, services, at, (len(steps) + 1, came_from))
        steps.append(step)
        waiting.extend((each, step.number) for each in onward)
    cut = (f"stopped after {MAX_STEPS} steps; {len(waiting)} more were waiting",) if waiting else ()
    return Explanation(graph.graph_id, document.doc_id, tuple(steps), (NOT_RUN, *cut))


def _entries(graph: Graph, stream: PipeStream, start_node_id: str) -> Sequence[str]:
    if start := start_node_id or stream.current_node_id:
        return [start]
    if graph.datasources:
        return sorted({source.entry_node_id for source in graph.datasources})
    reached = {edge.to_node_id for edge in graph.edges}
    return sorted(node.node_id for node in graph.nodes if node.node_id not in reached and not node.is_end)


class _Tracer(Conditions):
    """The graph's conditions, which note what they answer for the stream that is being processed."""

    def __init__(self, graph: Graph, engine: str) -> None:
        super().__init__(graph, engine)
        self._graph = graph
        self.begin()

    def begin(self) -> None:
        self.filters: list[ExplainedFilter] = []
        self.outcomes: dict[str, tuple[bool | None, str]] = {}
        self.module = ""

    def filter_holds(self, node: Node, number: int, activation: Activation) -> bool:
        text = node.filters[number]
        try:
            holds = super().filter_holds(node, number, activation)
        except ConditionError as error:
            self.filters.append(ExplainedFilter(text, None, error.reason))
            raise
        self.filters.append(ExplainedFilter(text, holds))
        return holds

    def matches(self, edge: Edge, activation: Activation) -> bool:
        try:
            matches = super().matches(edge, activation)
        except ConditionError as error:
            self.outcomes[edge.edge_id] = (None, error.reason)
            raise
        self.outcomes[edge.edge_id] = (matches, "")
        return matches

    def module_of(self, node: Node) -> Module:
        """Stand in for the node's module, and note that it would have been called."""
        self.module = node.module
        return IdentityModule()

    def edges_of(self, node_id: str) -> tuple[ExplainedEdge, ...]:
        if not self.outcomes:
            return ()
        return tuple(self._explained(edge) for edge in self._graph.edges_from.get(node_id, ()))

    def _explained(self, edge: Edge) -> ExplainedEdge:
        matches, error = self.outcomes.get(edge.edge_id, (None, ""))
        where = destination_of(edge, self._graph)
        return ExplainedEdge(edge.edge_id, edge.to_node_id, edge.condition, matches, error, str(where), where.topic)


class _NoEngine:
    """Stands in for a remote engine, and is not called."""

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        """Take the stream and do nothing."""


def _step(
    graph: Graph, services: Services, stream: PipeStream, numbers: tuple[int, int]
) -> tuple[Step, list[PipeStream]]:
    tracer = cast("_Tracer", services.conditions)
    tracer.begin()
    try:
        emissions = process_node(stream, graph, services)
        note = _note(graph, stream.current_node_id, emissions)
    except PipestreamError as error:
        emissions = []
        failed = fail(stream, graph, error, 1, services)
        where = f"goes to {failed.to_node_id}" if failed.to_node_id else "becomes a dead letter"
        note = f"{error}: the document {where}"
    if any(each.holds is False for each in tracer.filters):
        note = "; ".join(filter(None, ["a filter does not hold: the module is skipped", note]))
    node_id = stream.current_node_id
    step = Step(
        *numbers, node_id, stream.hop_count + 1, tuple(tracer.filters), tracer.edges_of(node_id), note, tracer.module
    )
    return step, [each.stream for each in emissions if each.edge is not None and _runs_here(graph, each.edge)]


def _note(graph: Graph, node_id: str, emissions: Sequence[Emission]) -> str:
    if not emissions:
        return "the end of the route"
    match emissions[0].outcome:
        case Outcome.HANDED_OVER:
            return f"the remote engine {graph.node_by_id[node_id].engine} processes it, and sends it on"
        case Outcome.HAPPY_END:
            return f"no edge matches: the route ends at {graph.happy_end}"
    return ""


def _runs_here(graph: Graph, edge: Edge) -> bool:
    """Tell whether a node of this graph processes what an edge carries."""
    return destination_of(edge, graph).way not in (Way.BRIDGE, Way.REST)


def _filter_line(explained: ExplainedFilter) -> str:
    outcome = (
        f"failed: {explained.error}" if explained.holds is None else "holds" if explained.holds else "does not hold"
    )
    return f"   filter {_one_line(explained.condition)}: {outcome}"


def _edge_line(explained: ExplainedEdge) -> str:
    mark = {True: "✓", False: "✗", None: "!"}[explained.matches]
    why = _one_line(explained.condition) or "always"
    failed = f": failed: {explained.error}" if explained.error else ""
    return f"   {mark} {explained.edge_id} → {explained.to_node_id} ({explained.destination}) when {why}{failed}"


def _one_line(text: str) -> str:
    return " ".join(text.split())

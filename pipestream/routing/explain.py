"""Tell where a document would go in a graph, and why, without running any module.

Filters, mappings, conditions and hop limits are the real ones; a module is taken to pass the document on
unchanged, so behind a module that changes what a condition looks at the real route may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pipestream.errors import ConditionError, MappingError
from pipestream.graph.model import Edge, Graph, Node, Transport
from pipestream.routing.conditions import Activation, Conditions, compile_conditions
from pipestream.routing.mappings import apply_mappings
from pipestream.topic_names import bridge_topic, node_topic
from pipestream.wire import PipeDoc, PipeStream

MAX_STEPS: Final = 200
"""Nodes told of, at most. Branches multiply, and nobody reads more."""

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
    transport: str
    topic: str
    """Where the document is written; empty for an edge that stays in the task."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens at one node. ``number`` counts from 1; ``came_from`` is 0 for an entry."""

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
        # Before the steps: whoever reads of a ✗ must know already which document was asked about.
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
    begin = PipeStream() if stream is None else stream
    conditions = compile_conditions(graph, engine)
    waiting: deque[tuple[PipeStream, PipeDoc, int]] = deque()
    for node_id in _entries(graph, begin, start_node_id):
        waiting.append((_at(begin, node_id), document, 0))
    steps: list[Step] = []
    while waiting and len(steps) < MAX_STEPS:
        at, held, came_from = waiting.popleft()
        step, onward = _step(graph, conditions, engine, at, held, (len(steps) + 1, came_from))
        steps.append(step)
        waiting.extend((each, made, step.number) for each, made in onward)
    cut = (f"stopped after {MAX_STEPS} steps; {len(waiting)} more were waiting",) if waiting else ()
    return Explanation(graph.graph_id, document.doc_id, tuple(steps), (NOT_RUN, *cut))


def _entries(graph: Graph, stream: PipeStream, start_node_id: str) -> Sequence[str]:
    if start := start_node_id or stream.current_node_id:
        return [start]
    if graph.datasources:
        return sorted({source.entry_node_id for source in graph.datasources})
    reached = {edge.to_node_id for edge in graph.edges}
    return sorted(node.node_id for node in graph.nodes if node.node_id not in reached and not node.is_end)


def _at(stream: PipeStream, node_id: str) -> PipeStream:
    moved = PipeStream()
    moved.CopyFrom(stream)
    moved.current_node_id = node_id
    return moved


def _step(
    graph: Graph,
    conditions: Conditions,
    engine: str,
    stream: PipeStream,
    document: PipeDoc,
    numbers: tuple[int, int],
) -> tuple[Step, list[tuple[PipeStream, PipeDoc]]]:
    node = graph.node_by_id.get(stream.current_node_id)
    hop = stream.hop_count + 1

    def told(
        note: str, filters: tuple[ExplainedFilter, ...] = (), edges: tuple[ExplainedEdge, ...] = ()
    ) -> tuple[Step, list[tuple[PipeStream, PipeDoc]]]:
        return Step(*numbers, stream.current_node_id, hop, filters, edges, note), []

    if node is None:
        return told(f"the graph has no such node: {_failure(graph)}")
    if stream.hop_count >= graph.max_hops:
        return told(f"after {graph.max_hops} hops, all the graph allows: {_failure(graph)}")
    filters = _explain_filters(node, conditions, stream, document)
    if any(each.holds is None for each in filters):
        return told(f"a filter failed: {_failure(graph)}", filters)
    skipped = not all(each.holds for each in filters)
    try:
        made = document if skipped else _mapped(node, stream, document, engine)
    except MappingError as error:
        return told(f"{error}: {_failure(graph)}", filters)
    if node.is_end:
        return told("the end of the route", filters)
    done = _leaving(stream, node)
    edges, taken, failure = _explain_edges(graph, conditions, done, made)
    if failure:
        return told(f"{failure}: {_failure(graph)}", filters, edges)
    onward = [(_at(done, edge.to_node_id), made) for edge in taken if edge.to_node_id in graph.node_by_id]
    note = "" if taken else f"no edge matches: the route ends at {graph.happy_end}"
    if skipped:
        note = f"a filter does not hold: the module is skipped{'; ' + note if note else ''}"
    return Step(*numbers, node.node_id, hop, filters, edges, note, "" if skipped else node.module), onward


def _failure(graph: Graph) -> str:
    return f"the document goes to {graph.error_end}" if graph.error_end else "the document becomes a dead letter"


def _mapped(node: Node, stream: PipeStream, document: PipeDoc, engine: str) -> PipeDoc:
    before = apply_mappings(node.pre_mappings, stream, document, engine)
    return apply_mappings(node.post_mappings, stream, before, engine)


def _leaving(stream: PipeStream, node: Node) -> PipeStream:
    """The stream as conditions see it: the node it leaves is behind it."""
    done = _at(stream, stream.current_node_id)
    done.hop_count += 1
    done.processing_path.append(node.node_id)
    return done


def _explain_filters(
    node: Node, conditions: Conditions, stream: PipeStream, document: PipeDoc
) -> tuple[ExplainedFilter, ...]:
    if not node.filters:
        return ()
    activation = conditions.activation(stream, document)
    explained = []
    for number, text in enumerate(node.filters):
        try:
            explained.append(ExplainedFilter(text, conditions.filter_holds(node, number, activation)))
        except ConditionError as error:
            explained.append(ExplainedFilter(text, None, error.reason))
        if not explained[-1].holds:
            # Filters after the first that does not hold are not tried.
            break
    return tuple(explained)


def _explain_edges(
    graph: Graph, conditions: Conditions, stream: PipeStream, document: PipeDoc
) -> tuple[tuple[ExplainedEdge, ...], list[Edge], str]:
    """Every edge out of a node, those that are taken, and why the document fails, if it does."""
    edges = graph.edges_from.get(stream.current_node_id, ())
    activation = conditions.activation(stream, document)
    explained, taken, failure = [], [], ""
    for edge in edges:
        matches, error = _outcome(conditions, edge, activation)
        explained.append(_explained(graph, edge, matches, error))
        if error:
            failure = failure or f"the condition of {edge.edge_id} failed"
        elif matches:
            taken.append(edge)
    for edge in taken:
        crossed = sum(pair == (edge.from_node_id, edge.to_node_id) for pair in pairwise(stream.processing_path))
        if edge.max_hops and crossed >= edge.max_hops:
            failure = failure or f"edge {edge.edge_id} was taken {crossed} times, all it allows"
    return tuple(explained), taken, failure


def _outcome(conditions: Conditions, edge: Edge, activation: Activation) -> tuple[bool | None, str]:
    try:
        return conditions.matches(edge, activation), ""
    except ConditionError as error:
        return None, error.reason


def _explained(graph: Graph, edge: Edge, matches: bool | None, error: str) -> ExplainedEdge:
    cluster_id = edge.to_cluster_id or graph.cluster_id
    topic = edge.kafka_topic
    transport = Transport.KAFKA if edge.is_cross_cluster else edge.transport
    if transport is Transport.GRPC:
        topic = ""
    elif not topic:
        topic = (bridge_topic if edge.is_cross_cluster else node_topic)(cluster_id, edge.to_node_id)
    return ExplainedEdge(edge.edge_id, edge.to_node_id, edge.condition, matches, error, transport.value, topic)


def _filter_line(explained: ExplainedFilter) -> str:
    outcome = (
        f"failed: {explained.error}" if explained.holds is None else "holds" if explained.holds else "does not hold"
    )
    return f"   filter {_one_line(explained.condition)}: {outcome}"


def _edge_line(explained: ExplainedEdge) -> str:
    mark = {True: "✓", False: "✗", None: "!"}[explained.matches]
    why = _one_line(explained.condition) or "always"
    where = f"{explained.transport} {explained.topic}".strip()
    failed = f": failed: {explained.error}" if explained.error else ""
    return f"   {mark} {explained.edge_id} → {explained.to_node_id} ({where}) when {why}{failed}"


def _one_line(text: str) -> str:
    return " ".join(text.split())

"""A pipeline as a page draws it: its parts with their topics and conditions, and where each is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipestream.graph.flow import destination_of, drained_topics, letter_topic
from pipestream.graph.write import graph_values
from pipestream.topic_names import intake_dead_letter_topic, intake_topic, node_topic

if TYPE_CHECKING:
    from pipestream.graph.model import Datasource, Edge, Graph, Node


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node of a graph."""

    id: str
    name: str
    type: str
    """``connector``, ``processor`` or ``sink``."""
    is_end: bool
    module: str
    engine: str
    topics: tuple[str, ...]
    """The topics that are drained into it."""
    dead_letter_topic: str
    """Empty: documents that fail here stop the run."""
    filters: tuple[str, ...]
    values: dict[str, Any]
    """The node as the graph file has it."""


@dataclass(frozen=True, slots=True)
class EdgeView:
    """An edge of a graph. ``to`` may be a node of another cluster."""

    id: str
    source: str
    target: str
    target_cluster: str
    """Empty: the graph's own."""
    transport: str
    """``kafka`` or ``grpc``."""
    way: str
    """``node``, ``rest``, ``bridge``, ``fused`` or ``engine``: how the document gets there."""
    topic: str
    condition: str
    """Empty: always taken."""
    priority: int
    max_hops: int


@dataclass(frozen=True, slots=True)
class DatasourceView:
    """A datasource of a graph."""

    id: str
    name: str
    account: str
    entry: str
    topic: str
    dead_letter_topic: str
    paused: bool
    schedule: str
    connector: str


@dataclass(frozen=True, slots=True)
class GraphParts:
    """The parts of a graph."""

    cluster: str
    happy_end: str
    error_end: str
    schedule: str
    datasources: tuple[DatasourceView, ...]
    nodes: tuple[NodeView, ...]
    edges: tuple[EdgeView, ...]


def graph_parts(graph: Graph) -> GraphParts:
    """Return the parts of a graph."""
    topics: dict[str, list[str]] = {}
    for each in drained_topics(graph):
        topics.setdefault(each.node_id, []).append(each.topic)
    values = {part["id"]: part for part in graph_values(graph).get("nodes", ())}
    return GraphParts(
        cluster=graph.cluster_id,
        happy_end=graph.happy_end,
        error_end=graph.error_end,
        schedule=graph.schedule,
        datasources=tuple(map(_datasource, graph.datasources)),
        nodes=tuple(
            _node(node, graph, tuple(topics.get(node.node_id, ())), values.get(node.node_id, {}))
            for node in graph.nodes
        ),
        edges=tuple(_edge(edge, graph) for edge in graph.edges),
    )


def _datasource(source: Datasource) -> DatasourceView:
    return DatasourceView(
        id=source.datasource_id,
        name=source.name,
        account=source.account_id,
        entry=source.entry_node_id,
        topic=intake_topic(source.datasource_id),
        dead_letter_topic=intake_dead_letter_topic(source.datasource_id),
        paused=source.paused,
        schedule=source.schedule,
        connector=source.connector.kind if source.connector else "",
    )


def _node(node: Node, graph: Graph, topics: tuple[str, ...], values: dict[str, Any]) -> NodeView:
    has_letters = node.dead_letters.enabled and not node.is_bare_end
    return NodeView(
        id=node.node_id,
        name=node.name,
        type=node.node_type.value,
        is_end=node.is_end,
        module=node.module,
        engine=node.engine,
        topics=topics or ((node_topic(graph.cluster_id, node.node_id),) if node.is_bare_end else ()),
        dead_letter_topic=letter_topic(graph, node) if has_letters else "",
        filters=node.filters,
        values=values,
    )


def _edge(edge: Edge, graph: Graph) -> EdgeView:
    destination = destination_of(edge, graph)
    return EdgeView(
        id=edge.edge_id,
        source=edge.from_node_id,
        target=edge.to_node_id,
        target_cluster=edge.to_cluster_id,
        transport=edge.transport.value,
        way=destination.way.value,
        topic=destination.topic,
        condition=edge.condition,
        priority=edge.priority,
        max_hops=edge.max_hops,
    )

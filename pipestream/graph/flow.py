"""Which topics a graph's documents travel through, which topic feeds which, and whether documents move at all.

Everything that depends on topics (what to create, what to drain, in which order) starts from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipestream.errors import RequestInvalid
from pipestream.graph.model import Datasource, Edge, Graph, GraphMode, Node, Transport
from pipestream.topic_names import (
    TopicKind,
    bridge_topic,
    datasource_of,
    dead_letter_topic,
    intake_dead_letter_topic,
    intake_topic,
    node_topic,
)


@dataclass(frozen=True, slots=True)
class DrainedTopic:
    """A topic that is drained into a node of the graph."""

    topic: str
    kind: TopicKind
    node_id: str
    """The node its records enter."""
    datasource_id: str = ""


class Way(Enum):
    """How an edge hands a document over."""

    NODE = "node"
    """Through Kafka, to the topic of a node that drains it."""
    REST = "rest"
    """Through Kafka, to the topic of an end without a module: nobody drains it, documents stay there."""
    BRIDGE = "bridge"
    """Through Kafka, to the bridge topic of a node in another cluster."""
    FUSED = "fused"
    """Not through Kafka: the next node runs in the same task."""
    ENGINE = "engine"
    """Not through Kafka: the task calls the remote engine in which the next node lives."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an edge writes."""

    way: Way
    topic: str = ""
    """The topic that the document is written to; empty: it stays in the task."""
    engine: str = ""
    """The address of the remote engine that is called; empty: none is."""

    @property
    def is_fused(self) -> bool:
        """Whether the task continues with the next node itself."""
        return not self.topic

    def __str__(self) -> str:
        if self.topic:
            return f"kafka {self.topic}"
        if self.engine:
            return self.engine if "://" in self.engine else f"grpc {self.engine}"
        return "fused"


def destination_of(edge: Edge, graph: Graph) -> Destination:
    """Return where an edge writes. Drawing, explaining, creating topics and draining all use this function."""
    known = graph.destinations.get(id(edge))
    # The edge is kept with its destination, so that no other one can get its id.
    if known is None or known[0] is not edge:
        known = graph.destinations[id(edge)] = edge, _destination_of(edge, graph)
    destination: Destination = known[1]
    return destination


def _destination_of(edge: Edge, graph: Graph) -> Destination:
    if edge.is_cross_cluster:
        return Destination(Way.BRIDGE, bridge_topic(edge.to_cluster_id, edge.to_node_id))
    node = graph.node_by_id[edge.to_node_id]
    topic = edge.kafka_topic or node_topic(graph.cluster_id, edge.to_node_id)
    if node.is_bare_end:
        # For every transport: a document that has reached an end is kept only in a topic.
        return Destination(Way.REST, topic)
    if edge.transport is Transport.KAFKA:
        return Destination(Way.NODE, topic)
    return Destination(Way.ENGINE, engine=node.engine) if node.engine else Destination(Way.FUSED)


def drained_topics(graph: Graph) -> list[DrainedTopic]:
    """Return the topics that are drained: intake first, then in the order of the nodes.

    The topic of an end without a module is not among them: documents stay there. A node reached only by fused
    edges has a topic too: its dead letters are replayed there, without running the nodes before it again.
    """
    found = [
        DrainedTopic(intake_topic(source.datasource_id), TopicKind.INTAKE, source.entry_node_id, source.datasource_id)
        for source in graph.datasources
    ]
    written: dict[str, list[str]] = {}
    fused: set[str] = set()
    for edge in graph.edges:
        destination = destination_of(edge, graph)
        if destination.is_fused:
            fused.add(edge.to_node_id)
        elif destination.way is Way.NODE:
            topics = written.setdefault(edge.to_node_id, [])
            if destination.topic not in topics:
                topics.append(destination.topic)
    needed = {graph.happy_end, graph.error_end, *(fused - set(written))}
    for node in graph.nodes:
        if node.is_bare_end:
            continue
        own = node_topic(graph.cluster_id, node.node_id)
        topics = written.get(node.node_id, [])
        if node.node_id in needed and own not in topics:
            topics = [own, *topics]
        found += [DrainedTopic(topic, TopicKind.NODE, node.node_id) for topic in topics]
        if node.is_bridged:
            found.append(DrainedTopic(bridge_topic(graph.cluster_id, node.node_id), TopicKind.BRIDGE, node.node_id))
    return found


def topic_targets(graph: Graph) -> dict[str, str]:
    """Return the node that each drained topic's records enter."""
    return {drained.topic: drained.node_id for drained in drained_topics(graph)}


def check_drained(graph: Graph, topic: str) -> None:
    """Refuse a topic that a graph does not drain.

    :raises RequestInvalid: the message lists the topics that it drains.
    """
    topics = topic_targets(graph)
    if topic not in topics:
        raise RequestInvalid(f"graph {graph.graph_id} does not drain {topic}; it drains {', '.join(topics)}")


def fed_topics(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Return for each drained topic the topics that draining it can write to, through any number of fused edges."""
    drained = drained_topics(graph)
    known = {each.topic for each in drained}
    ends = [node_topic(graph.cluster_id, node_id) for node_id in (graph.happy_end, graph.error_end) if node_id]
    by_node: dict[str, tuple[str, ...]] = {}
    for each in drained:
        if each.node_id not in by_node:
            topics: dict[str, None] = {}
            for node_id in fused_with(graph, each.node_id):
                for edge in graph.edges_from.get(node_id, ()):
                    topics[destination_of(edge, graph).topic] = None
            if not graph.node_by_id[each.node_id].is_end:
                # any document may end, well or badly, wherever its edges lead
                topics.update(dict.fromkeys(ends))
            by_node[each.node_id] = tuple(topic for topic in topics if topic in known)
    return {each.topic: by_node[each.node_id] for each in drained}


def output_topics(graph: Graph, topic: str) -> list[str]:
    """Return every topic that draining a topic can write to: those of edges, of the ends, and of dead letters."""
    (drained,) = (each for each in drained_topics(graph) if each.topic == topic)
    found: dict[str, None] = {}
    for node_id in fused_with(graph, drained.node_id):
        node = graph.node_by_id[node_id]
        destinations = [destination_of(edge, graph) for edge in graph.edges_from.get(node_id, ())]
        found.update(dict.fromkeys(each.topic for each in destinations if each.topic))
        if not node.is_end:
            ends = (graph.happy_end, graph.error_end)
            found.update(dict.fromkeys(node_topic(graph.cluster_id, end) for end in ends if end))
        if node.dead_letters.enabled:
            datasource_id = drained.datasource_id if node_id == drained.node_id else ""
            found[letter_topic(graph, node, datasource_id)] = None
    return list(found)


def letter_topic(graph: Graph, node: Node, datasource_id: str = "") -> str:
    """Return where the dead letters of a node go.

    :param datasource_id: the datasource of a record that failed as it came in.
    """
    if node.dead_letters.topic_override:
        return node.dead_letters.topic_override
    return (
        intake_dead_letter_topic(datasource_id) if datasource_id else dead_letter_topic(graph.cluster_id, node.node_id)
    )


def fused_with(graph: Graph, node_id: str) -> list[str]:
    """Return the node, and the nodes that its documents reach in the same task."""
    reached = {node_id: None}
    waiting = [node_id]
    while waiting:
        for edge in graph.edges_from.get(waiting.pop(), ()):
            if destination_of(edge, graph).is_fused and edge.to_node_id not in reached:
                reached[edge.to_node_id] = None
                waiting.append(edge.to_node_id)
    return list(reached)


def start_at(graph: Graph, topic: str) -> str:
    """Return where a topic without a head starts, as its datasource or its node says; empty: at its beginning."""
    source = _source_of(graph, topic)
    return source.start_at if source else ""


def slots_of(graph: Graph, topic: str) -> int:
    """Return how many drains may share a topic when it is first applied, as its datasource or its node says."""
    source = _source_of(graph, topic)
    return source.slots if source else 1


def _source_of(graph: Graph, topic: str) -> Datasource | Node | None:
    """Return the part of the graph that a drained topic belongs to."""
    for source in graph.datasources:
        if topic == intake_topic(source.datasource_id):
            return source
    return graph.node_by_id.get(topic_targets(graph).get(topic, ""))


def why_inactive(graph: Graph, datasource_id: str = "") -> str:
    """Return why a graph, or one of its datasources, is inactive; empty if it is active.

    This is the one rule for ``mode: design`` and for a datasource's ``paused``. Everything that would move documents
    asks here: drains and backfills on the command line, in Spark and in Airflow, and the connectors that bring
    documents in. These have their graph from a file, and ask about its active version as well, in
    ``drain/left_alone.py``. A document that is uploaded to a paused datasource is still accepted, and waits.
    """
    if graph.mode is GraphMode.DESIGN:
        return f"graph {graph.graph_id} is in design; set mode: production in its file when it is ready"
    source = graph.datasource_by_id.get(datasource_id)
    if source is not None and source.paused:
        return f"datasource {datasource_id} is paused in the graph; remove paused: true from its file to resume"
    return ""


def why_not_drained(graph: Graph, topic: str) -> str:
    """Return why a topic of a graph is inactive; empty if it is active."""
    return why_inactive(graph, datasource_of(topic))

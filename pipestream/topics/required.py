"""The topics a graph needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pipestream.graph.flow import drained_topics, is_by_kafka, topic_targets
from pipestream.topic_names import (
    TopicKind,
    bridge_topic,
    dead_letter_topic,
    edge_topic,
    intake_dead_letter_topic,
    intake_topic,
    node_topic,
)

if TYPE_CHECKING:
    from pipestream.graph.model import Graph, Node
    from pipestream.settings import Settings

HOUR_MS = 3_600_000
KEEP_FOREVER_MS = -1
DEAD_LETTER_BYTES = 8_388_608
"""What a dead-letter topic takes at least: eight times what Kafka's topics do, and no more than hosted Kafkas allow."""
DEAD_LETTER_HEADERS_BYTES = 65_536
"""Room for what a dead letter has besides the record it was: reasons of 2,000 characters, names and times."""


class Purpose(Enum):
    """What a topic is for."""

    INTAKE = "intake"
    NODE = "node"
    OVERRIDE = "override"
    BRIDGE_IN = "bridge in"
    BRIDGE_OUT = "bridge out"
    END = "end"
    DEAD_LETTERS = "dead letters"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as the graph wants it."""

    name: str
    partitions: int
    retention_ms: int | None
    """How long records are kept; None: as the broker does by default, -1: for ever."""
    purpose: Purpose
    partitions_said: bool = False
    """Whether the graph itself says how many partitions; if not, a topic that exists is right as it is."""
    max_message_bytes: int | None = None
    """The largest batch of records it must take; None: what the broker does by default."""


def required_topics(graph: Graph, settings: Settings) -> list[TopicSpec]:
    """Return every topic that must exist for a graph to run, each once, sorted by name."""
    specs: dict[str, TopicSpec] = {}

    def add(spec: TopicSpec) -> None:
        specs.setdefault(spec.name, spec)

    for source in graph.datasources:
        add(
            TopicSpec(
                intake_topic(source.datasource_id),
                source.partitions or settings.kafka_partitions,
                _milliseconds(source.retention_hours),
                Purpose.INTAKE,
                source.partitions is not None,
            )
        )
        add(_dead_letters(intake_dead_letter_topic(source.datasource_id)))
    for edge in graph.edges:
        if edge.is_cross_cluster:
            name = edge_topic(edge, graph.cluster_id)
            add(TopicSpec(name, settings.kafka_partitions, None, Purpose.BRIDGE_OUT))
        elif is_by_kafka(edge):
            node = graph.node_by_id[edge.to_node_id]
            purpose = Purpose.OVERRIDE if edge.kafka_topic else Purpose.END if node.is_bare_end else Purpose.NODE
            add(_of_node(edge_topic(edge, graph.cluster_id), node, purpose, settings))
    for drained in drained_topics(graph):
        if drained.kind is TopicKind.NODE:
            add(_of_node(drained.topic, graph.node_by_id[drained.node_id], Purpose.NODE, settings))
    # Whatever their edges say, documents reach an end without a module by Kafka: they rest in its topic.
    ends = {graph.happy_end, graph.error_end, *(e.to_node_id for e in graph.edges if not is_by_kafka(e))}
    for node in graph.nodes:
        if node.is_bare_end and node.node_id in ends:
            add(_of_node(node_topic(graph.cluster_id, node.node_id), node, Purpose.END, settings))
        if node.is_bridged and not node.is_bare_end:
            add(_of_node(bridge_topic(graph.cluster_id, node.node_id), node, Purpose.BRIDGE_IN, settings))
        if not node.is_bare_end:
            override = node.dead_letters.topic_override
            add(_dead_letters(override or dead_letter_topic(graph.cluster_id, node.node_id)))
    return [specs[name] for name in sorted(specs)]


def leased_topics(graph: Graph) -> list[str]:
    """Return the topics that drains take leases on: those that are drained, sorted."""
    return sorted(topic_targets(graph))


def _of_node(name: str, node: Node, purpose: Purpose, settings: Settings) -> TopicSpec:
    return TopicSpec(
        name,
        node.partitions or settings.kafka_partitions,
        _milliseconds(node.retention_hours),
        purpose,
        node.partitions is not None,
    )


def _dead_letters(name: str) -> TopicSpec:
    # One partition keeps dead letters in the order they fell; they stay until somebody replays or purges them.
    return TopicSpec(name, 1, KEEP_FOREVER_MS, Purpose.DEAD_LETTERS, max_message_bytes=DEAD_LETTER_BYTES)


def _milliseconds(hours: float | None) -> int | None:
    return None if hours is None else max(1, round(hours * HOUR_MS))

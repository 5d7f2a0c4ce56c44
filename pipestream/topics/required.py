"""The topics a graph needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pipestream.graph.flow import Way, destination_of, drained_topics, topic_targets
from pipestream.topic_names import (
    TopicKind,
    bridge_topic,
    dead_letter_topic,
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
"""The least limit of a dead-letter topic: eight times Kafka's default, and not more than hosted Kafkas allow."""
DEAD_LETTER_HEADERS_BYTES = 65_536
"""Room for what a dead letter adds to the record: reasons of 2,000 characters, names and times."""


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
    """How long records are kept; None: the broker's default, -1: forever."""
    purpose: Purpose
    partitions_said: bool = False
    """Whether the graph itself sets the partitions; if not, an existing topic keeps its number."""
    max_message_bytes: int | None = None
    """The largest batch of records it must accept; None: the broker's default."""


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
        destination = destination_of(edge, graph)
        if destination.way is Way.BRIDGE:
            add(TopicSpec(destination.topic, settings.kafka_partitions, None, Purpose.BRIDGE_OUT))
        elif destination.topic:
            node = graph.node_by_id[edge.to_node_id]
            purpose = Purpose.OVERRIDE if edge.kafka_topic else Purpose.END if node.is_bare_end else Purpose.NODE
            add(_of_node(destination.topic, node, purpose, settings))
    for drained in drained_topics(graph):
        if drained.kind is TopicKind.NODE:
            add(_of_node(drained.topic, graph.node_by_id[drained.node_id], Purpose.NODE, settings))
    for node in graph.nodes:
        if node.is_bare_end and node.node_id in (graph.happy_end, graph.error_end):
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
    # One partition keeps dead letters in the order of their failures. They stay until someone replays or purges them.
    return TopicSpec(name, 1, KEEP_FOREVER_MS, Purpose.DEAD_LETTERS, max_message_bytes=DEAD_LETTER_BYTES)


def _milliseconds(hours: float | None) -> int | None:
    return None if hours is None else max(1, round(hours * HOUR_MS))

"""Topics named in a graph must not be another topic of the graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipestream.topics.names import TopicKind

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.report import Report

_KAFKA_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_RESERVED = tuple(f"{kind.value}." for kind in TopicKind)


def collision_key(topic: str) -> str:
    """Return what Kafka compares: it refuses a topic that differs from another only in ``.`` and ``_``."""
    return topic.replace(".", "_")


def check_topics(draft: Draft, report: Report) -> None:
    """Report every override that cannot be a topic, or is one already."""
    graph = draft.graph
    owners: dict[str, str] = {}
    for source in graph.datasources:
        owners[collision_key(f"intake.{source.datasource_id}")] = f"the intake of datasource {source.datasource_id}"
    for node in graph.nodes:
        key = f"{graph.cluster_id}.{node.node_id}"
        owners[collision_key(f"pipestream.{key}")] = f"the topic of node {node.node_id}"
        owners[collision_key(f"bridge.{key}")] = f"the bridge of node {node.node_id}"
        owners[collision_key(f"dlq.{key}")] = f"the dead letters of node {node.node_id}"

    targets: dict[str, tuple[str, str]] = {}
    for place, edge in draft.edges:
        topic = edge.kafka_topic
        if not topic or edge.is_cross_cluster or not _is_name(topic, f"{place}.topic", report):
            continue
        if topic == f"pipestream.{graph.cluster_id}.{edge.to_node_id}":
            continue
        _check_free(topic, f"{place}.topic", owners, _RESERVED, report)
        first_topic, first_target = targets.setdefault(collision_key(topic), (topic, edge.to_node_id))
        if (first_topic, first_target) != (topic, edge.to_node_id):
            report.problem(f"{place}.topic", f"{topic} already leads to {first_target}", "a topic leads to one node")
    for key, (topic, target) in targets.items():
        owners.setdefault(key, f"topic {topic} that leads to {target}")

    for place, node in draft.nodes:
        topic = node.dead_letters.topic_override
        field = f"{place}.dead_letters.topic"
        if topic and _is_name(topic, field, report) and topic != f"dlq.{graph.cluster_id}.{node.node_id}":
            # Nodes may share dead letters of their own naming, so only real topics count as taken.
            _check_free(topic, field, owners, tuple(word for word in _RESERVED if word != "dlq."), report)


def _is_name(topic: str, field: str, report: Report) -> bool:
    if _KAFKA_NAME.fullmatch(topic) and topic not in (".", "..") and not topic.startswith("__"):
        return True
    report.problem(
        field, f"{topic[:100]!r} cannot be a topic", "use 1 to 249 letters, digits, . _ and -, not starting with __"
    )
    return False


def _check_free(topic: str, field: str, owners: dict[str, str], reserved: tuple[str, ...], report: Report) -> None:
    owner = owners.get(collision_key(topic))
    if owner is not None:
        report.problem(field, f"{topic} collides with {owner}", "choose another name")
    elif topic.startswith(reserved):
        word = topic.split(".")[0]
        report.problem(field, f"names that start with {word}. belong to the product", "choose another name")

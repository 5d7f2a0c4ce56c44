"""Topics named in a graph must not be another topic of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.topic_names import KAFKA_NAME_RULE, TopicKind, TopicName, is_kafka_name

if TYPE_CHECKING:
    from pipestream.graph.draft import Draft
    from pipestream.graph.report import Report


def collision_key(topic: str) -> str:
    """Return the name as Kafka compares it: it refuses a topic that differs from another only in ``.`` and ``_``."""
    return topic.replace(".", "_")


def check_topics(draft: Draft, report: Report) -> None:
    """Report every override that is not a valid topic name, or is already another topic."""
    graph = draft.graph
    owners: dict[str, str] = {}

    def own(kind: TopicKind, local_id: str, owner: str) -> None:
        # As a plain name: what is wrong with an id is reported elsewhere.
        owners[collision_key(str(TopicName(kind, graph.cluster_id, local_id)))] = owner

    for source in graph.datasources:
        own(TopicKind.INTAKE, source.datasource_id, f"the intake of datasource {source.datasource_id}")
    for node in graph.nodes:
        own(TopicKind.NODE, node.node_id, f"the topic of node {node.node_id}")
        own(TopicKind.BRIDGE, node.node_id, f"the bridge of node {node.node_id}")
        own(TopicKind.DEAD_LETTERS, node.node_id, f"the dead letters of node {node.node_id}")

    targets: dict[str, tuple[str, str]] = {}
    for place, edge in draft.edges:
        topic = edge.kafka_topic
        if not topic or edge.is_cross_cluster or not _is_name(topic, f"{place}.topic", report):
            continue
        if topic == str(TopicName(TopicKind.NODE, graph.cluster_id, edge.to_node_id)):
            continue
        _check_free(topic, f"{place}.topic", owners, set(TopicKind), report)
        first_topic, first_target = targets.setdefault(collision_key(topic), (topic, edge.to_node_id))
        if (first_topic, first_target) != (topic, edge.to_node_id):
            report.problem(f"{place}.topic", f"{topic} already leads to {first_target}", "a topic leads to one node")
    for key, (topic, target) in targets.items():
        owners.setdefault(key, f"topic {topic} that leads to {target}")

    for place, node in draft.nodes:
        topic = node.dead_letters.topic_override
        field = f"{place}.dead_letters.topic"
        own_topic = str(TopicName(TopicKind.DEAD_LETTERS, graph.cluster_id, node.node_id))
        if topic and _is_name(topic, field, report) and topic != own_topic:
            # Nodes may share dead letters of their own naming, so only real topics count as taken.
            _check_free(topic, field, owners, set(TopicKind) - {TopicKind.DEAD_LETTERS}, report)


def _is_name(topic: str, field: str, report: Report) -> bool:
    if is_kafka_name(topic):
        return True
    report.problem(field, f"{topic[:100]!r} cannot be a topic", KAFKA_NAME_RULE)
    return False


def _check_free(topic: str, field: str, owners: dict[str, str], reserved: set[TopicKind], report: Report) -> None:
    owner = owners.get(collision_key(topic))
    word, dot, _ = topic.partition(".")
    if owner is not None:
        report.problem(field, f"{topic} collides with {owner}", "choose another name")
    elif dot and word in {kind.value for kind in reserved}:
        report.problem(field, f"names that start with {word}. belong to the product", "choose another name")

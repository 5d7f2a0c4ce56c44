"""The names of topics, and what a name says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from pipestream.errors import IdInvalid
from pipestream.ids import check_graph_id

# Kafka's own rule; a name of dots alone would be a folder of the broker, and its own topics start with __.
_KAFKA_NAME = re.compile(r"(?!\.{1,2}$)(?!__)[A-Za-z0-9._-]{1,249}", re.ASCII)
KAFKA_NAME_RULE = "use 1 to 249 letters, digits, . _ and -, not starting with __"
INTAKE_CLUSTER = "intake"
"""What stands for the cluster in the name of a datasource's dead-letter topic."""


class TopicKind(Enum):
    """Which of the product's topics a topic is."""

    INTAKE = "intake"
    NODE = "pipestream"
    BRIDGE = "bridge"
    DEAD_LETTERS = "dlq"


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name, taken apart. Intake topics have a datasource, the others a cluster and a node."""

    kind: TopicKind
    cluster_id: str
    local_id: str
    """The node's id, or the datasource's."""

    def __str__(self) -> str:
        if self.kind is TopicKind.INTAKE:
            return f"intake.{self.local_id}"
        return f"{self.kind.value}.{self.cluster_id}.{self.local_id}"


# Names are asked for with every document, and there are few of them. An id that cannot be used is not kept.
@lru_cache(maxsize=4_096)
def intake_topic(datasource_id: str) -> str:
    return str(TopicName(TopicKind.INTAKE, "", check_graph_id(datasource_id, "datasource id")))


@lru_cache(maxsize=4_096)
def node_topic(cluster_id: str, node_id: str) -> str:
    return _of_node(TopicKind.NODE, cluster_id, node_id)


@lru_cache(maxsize=4_096)
def bridge_topic(cluster_id: str, node_id: str) -> str:
    return _of_node(TopicKind.BRIDGE, cluster_id, node_id)


@lru_cache(maxsize=4_096)
def dead_letter_topic(cluster_id: str, node_id: str) -> str:
    return _of_node(TopicKind.DEAD_LETTERS, cluster_id, node_id)


@lru_cache(maxsize=4_096)
def intake_dead_letter_topic(datasource_id: str) -> str:
    return _of_node(TopicKind.DEAD_LETTERS, INTAKE_CLUSTER, datasource_id)


def datasource_of(topic: str) -> str:
    """Return the datasource whose intake topic this is; empty for every other topic."""
    kind, _, datasource_id = topic.partition(".")
    return datasource_id if kind == TopicKind.INTAKE.value else ""


def is_intake(topic: str) -> bool:
    """Return whether datasources publish to a topic; otherwise drains write to it."""
    return bool(datasource_of(topic))


def is_kafka_name(topic: str) -> bool:
    """Return whether Kafka accepts a name, and the name is not reserved for Kafka's own topics."""
    return _KAFKA_NAME.fullmatch(topic) is not None


def check_topic(topic: str) -> str:
    """Return ``topic`` if it can be drained: one of the product's, or one that an edge names for itself.

    :raises IdInvalid: it is neither, or Kafka would refuse it.
    """
    if topic.split(".")[0] in {kind.value for kind in TopicKind}:
        return str(parse_topic(topic))
    if not is_kafka_name(topic):
        raise IdInvalid(f"{topic[:100]!r} cannot be a topic: {KAFKA_NAME_RULE}")
    return topic


def parse_topic(topic: str) -> TopicName:
    """Take a topic's name apart.

    :raises IdInvalid: the name does not follow the convention.
    """
    match topic.split("."):
        case ["intake", datasource_id]:
            return TopicName(TopicKind.INTAKE, "", check_graph_id(datasource_id, "datasource id"))
        case [("pipestream" | "bridge" | "dlq") as kind, cluster_id, node_id]:
            check_graph_id(cluster_id, "cluster id")
            return TopicName(TopicKind(kind), cluster_id, check_graph_id(node_id, "node id"))
    raise IdInvalid(
        f"{topic!r} is not a topic of this product: expected intake.DATASOURCE, pipestream.CLUSTER.NODE, "
        f"bridge.CLUSTER.NODE or dlq.CLUSTER.NODE"
    )


def _of_node(kind: TopicKind, cluster_id: str, node_id: str) -> str:
    check_graph_id(cluster_id, "cluster id")
    return str(TopicName(kind, cluster_id, check_graph_id(node_id, "node id")))

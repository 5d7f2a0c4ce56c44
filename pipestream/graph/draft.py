"""A graph that has been read but not yet checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipestream.graph.model import (
    HAPPY_END,
    Connector,
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    GraphMode,
    MappingType,
    Node,
    NodeType,
    Transport,
    Visibility,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Draft:
    """What could be read of a graph, each part with its place in the file."""

    graph: Graph
    """Without the parts that could not be read, so it may refer to what is not there."""
    nodes: tuple[tuple[str, Node], ...]
    edges: tuple[tuple[str, Edge], ...]
    datasources: tuple[tuple[str, Datasource], ...]
    unreadable_nodes: bool = False
    """Some node has no id that could be read, so an unknown node may be that one."""


def build_draft(values: Mapping[str, Any]) -> Draft:
    """Make a draft of the values of a graph file. Parts without the ids that name them are left out."""
    cluster = values.get("cluster", "")
    read_nodes: Sequence[Mapping[str, Any] | None] = values.get("nodes", ())
    nodes = [
        (f"nodes[{index}]", build_node(node, cluster)) for index, node in enumerate(read_nodes) if node and "id" in node
    ]
    edges = [
        (f"edges[{index}]", build_edge(edge, cluster))
        for index, edge in enumerate(values.get("edges", ()))
        if edge and "from" in edge and "to" in edge
    ]
    datasources = [
        (f"datasources[{index}]", build_datasource(source))
        for index, source in enumerate(values.get("datasources", ()))
        if source and "id" in source
    ]
    graph = Graph(
        graph_id=values.get("graph", ""),
        cluster_id=cluster,
        nodes=complete_nodes([node for _, node in nodes], cluster, values.get("happy_end", HAPPY_END)),
        edges=tuple(edge for _, edge in edges),
        datasources=tuple(source for _, source in datasources),
        name=values.get("name", ""),
        description=values.get("description", ""),
        schedule=values.get("schedule", ""),
        happy_end=values.get("happy_end", HAPPY_END),
        error_end=values.get("error_end", ""),
        max_hops=values.get("max_hops", Graph.max_hops),
        mode=GraphMode(values.get("mode", GraphMode.PRODUCTION.value)),
    )
    return Draft(graph, tuple(nodes), tuple(edges), tuple(datasources), len(nodes) < len(read_nodes))


def complete_nodes(nodes: Sequence[Node], cluster_id: str, happy_end: str) -> tuple[Node, ...]:
    """Return the nodes, with the happy-end that need not be written down."""
    if happy_end == HAPPY_END and all(node.node_id != HAPPY_END for node in nodes):
        return (*nodes, Node(node_id=HAPPY_END, cluster_id=cluster_id, node_type=NodeType.SINK))
    return tuple(nodes)


def build_node(values: Mapping[str, Any], cluster_id: str) -> Node:
    return Node(
        node_id=values["id"],
        cluster_id=cluster_id,
        name=values.get("name", ""),
        node_type=NodeType(values.get("type", NodeType.PROCESSOR.value)),
        module=values.get("module", ""),
        engine=values.get("engine", ""),
        config=values.get("config", {}),
        config_params=values.get("config_params", {}),
        filters=values.get("filters", ()),
        pre_mappings=_build_mappings(values.get("pre_mappings", ())),
        post_mappings=_build_mappings(values.get("post_mappings", ())),
        dead_letters=_build_policy(values.get("dead_letters", {})),
        timeout_s=values.get("timeout_s"),
        partitions=values.get("partitions"),
        retention_hours=values.get("retention_hours"),
        slots=values.get("slots", 1),
        ordering=values.get("ordering", ""),
        start_at=values.get("start_at", ""),
        visibility=Visibility(values.get("visibility", Visibility.PRIVATE.value)),
    )


def build_edge(values: Mapping[str, Any], cluster_id: str) -> Edge:
    other_cluster = values.get("cluster", "")
    if other_cluster == cluster_id:
        other_cluster = ""
    return Edge(
        edge_id=values.get("id", f"{values['from']}--{values['to']}"),
        from_node_id=values["from"],
        to_node_id=values["to"],
        to_cluster_id=other_cluster,
        is_cross_cluster=bool(other_cluster),
        condition=values.get("when", ""),
        priority=values.get("priority", 0),
        transport=Transport(values.get("transport", Transport.KAFKA.value)),
        kafka_topic=values.get("topic", ""),
        max_hops=values.get("max_hops", 0),
    )


def build_datasource(values: Mapping[str, Any]) -> Datasource:
    connector = values.get("connector")
    options = {key: value for key, value in connector.items() if key != "kind"} if connector else {}
    return Datasource(
        datasource_id=values["id"],
        account_id=values.get("account", ""),
        entry_node_id=values.get("entry", ""),
        name=values.get("name", ""),
        paused=values.get("paused", False),
        partitions=values.get("partitions"),
        retention_hours=values.get("retention_hours"),
        slots=values.get("slots", 1),
        schedule=values.get("schedule", ""),
        connector=Connector(connector["kind"], options) if connector and "kind" in connector else None,
        start_at=values.get("start_at", ""),
    )


def _build_mappings(items: Sequence[Mapping[str, Any] | None]) -> tuple[FieldMapping, ...]:
    mappings = []
    for number, values in enumerate(items, start=1):
        if not values or "type" not in values:
            return ()  # a list with a hole would put the other mappings' problems in the wrong place
        kind = MappingType(values["type"])
        mappings.append(
            FieldMapping(
                mapping_id=values.get("id", f"m{number}"),
                mapping_type=kind,
                source_field_paths=values.get("from", ()),
                target_field_paths=values.get("to", ()),
                rule=values.get("rule", ""),
                params=values.get("params", {}),
                aggregation=values.get("aggregation", "concatenate" if kind is MappingType.AGGREGATE else ""),
                delimiter=values.get("delimiter", ""),
                expression=values.get("expression", ""),
            )
        )
    return tuple(mappings)


def _build_policy(values: Mapping[str, Any] | None) -> DeadLetterPolicy:
    values = values or {}
    return DeadLetterPolicy(
        enabled=values.get("enabled", True),
        topic_override=values.get("topic", ""),
        max_attempts=values.get("max_attempts"),
        initial_backoff_ms=values.get("initial_backoff_ms"),
        max_backoff_ms=values.get("max_backoff_ms"),
        backoff_multiplier=values.get("multiplier", DeadLetterPolicy().backoff_multiplier),
        include_payload=values.get("include_payload", True),
    )

"""A graph as a file: the values that reading it gives back, and their YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from pipestream.graph.model import (
    HAPPY_END,
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    GraphMode,
    Node,
    NodeType,
    Transport,
    Visibility,
)
from pipestream.graph.yamltree import YamlInvalid, plain_value


def to_yaml(graph: Graph) -> str:
    """Return a graph as the text of a graph file. Reading it gives the same graph."""
    return yaml.dump(graph_values(graph), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def graph_values(graph: Graph) -> dict[str, Any]:
    """Return a graph as the plain values of a graph file, without what is the default anyway."""
    implicit = Node(node_id=HAPPY_END, cluster_id=graph.cluster_id, node_type=NodeType.SINK)
    nodes = graph.nodes
    if nodes and nodes[-1] == implicit and graph.happy_end == HAPPY_END:
        nodes = nodes[:-1]
    return {
        "graph": graph.graph_id,
        "cluster": graph.cluster_id,
        **_unless_default(
            name=(graph.name, ""),
            description=(graph.description, ""),
            mode=(graph.mode.value, GraphMode.PRODUCTION.value),
            schedule=(graph.schedule, ""),
            happy_end=(graph.happy_end, HAPPY_END),
            error_end=(graph.error_end, ""),
            max_hops=(graph.max_hops, 100),
            datasources=([_datasource_values(source) for source in graph.datasources], []),
        ),
        "nodes": [_node_values(node) for node in nodes],
        **_unless_default(edges=([_edge_values(edge) for edge in graph.edges], [])),
    }


def _node_values(node: Node) -> dict[str, Any]:
    return {
        "id": node.node_id,
        **_unless_default(
            name=(node.name, ""),
            type=(node.node_type.value, NodeType.PROCESSOR.value),
            module=(node.module, ""),
            engine=(node.engine, ""),
            config=(_plain(node.config), {}),
            config_params=(dict(node.config_params), {}),
            filters=(list(node.filters), []),
            pre_mappings=([_mapping_values(mapping) for mapping in node.pre_mappings], []),
            post_mappings=([_mapping_values(mapping) for mapping in node.post_mappings], []),
            dead_letters=(_policy_values(node.dead_letters), {}),
            visibility=(node.visibility.value, Visibility.PRIVATE.value),
            timeout_s=(node.timeout_s, None),
            partitions=(node.partitions, None),
            retention_hours=(node.retention_hours, None),
            slots=(node.slots, 1),
            ordering=(node.ordering, ""),
            start_at=(node.start_at, ""),
        ),
    }


def _edge_values(edge: Edge) -> dict[str, Any]:
    return {
        **_unless_default(id=(edge.edge_id, f"{edge.from_node_id}--{edge.to_node_id}")),
        "from": edge.from_node_id,
        "to": edge.to_node_id,
        **_unless_default(
            cluster=(edge.to_cluster_id, ""),
            when=(edge.condition, ""),
            priority=(edge.priority, 0),
            transport=(edge.transport.value, Transport.KAFKA.value),
            topic=(edge.kafka_topic, ""),
            max_hops=(edge.max_hops, 0),
        ),
    }


def _datasource_values(source: Datasource) -> dict[str, Any]:
    connector = source.connector
    return {
        "id": source.datasource_id,
        "account": source.account_id,
        "entry": source.entry_node_id,
        **_unless_default(
            name=(source.name, ""),
            partitions=(source.partitions, None),
            retention_hours=(source.retention_hours, None),
            paused=(source.paused, False),
            slots=(source.slots, 1),
            start_at=(source.start_at, ""),
            schedule=(source.schedule, ""),
            connector=({"kind": connector.kind, **_plain(connector.options)} if connector else None, None),
        ),
    }


def _mapping_values(mapping: FieldMapping) -> dict[str, Any]:
    return {
        "id": mapping.mapping_id,
        "type": mapping.mapping_type.value,
        **_unless_default(**{"from": (list(mapping.source_field_paths), [])}),
        "to": list(mapping.target_field_paths),
        **_unless_default(
            rule=(mapping.rule, ""),
            params=(_plain(mapping.params), {}),
            aggregation=(mapping.aggregation, ""),
            delimiter=(mapping.delimiter, ""),
            expression=(mapping.expression, ""),
        ),
    }


def _policy_values(policy: DeadLetterPolicy) -> dict[str, Any]:
    return _unless_default(
        enabled=(policy.enabled, True),
        topic=(policy.topic_override, ""),
        max_attempts=(policy.max_attempts, None),
        initial_backoff_ms=(policy.initial_backoff_ms, None),
        max_backoff_ms=(policy.max_backoff_ms, None),
        multiplier=(policy.backoff_multiplier, 2.0),
        include_payload=(policy.include_payload, True),
    )


def _unless_default(**values: tuple[Any, Any]) -> dict[str, Any]:
    """Return those values that differ from their default; each is given as (value, default)."""
    return {key: value for key, (value, default) in values.items() if value != default}


def _plain(value: Any) -> Any:
    """Return free-form values as dicts and lists, which is all that a file or the wire can hold."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


class _Dumper(yaml.SafeDumper):
    """Writes YAML that YAML 1.2 reads as it was meant, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """Return how to write a text so that reading gives it back; the writer itself thinks in YAML 1.1."""
    if not text.replace("\n", "").isprintable():
        return '"'  # some of these would be folded away as line breaks
    if "\n" in text:
        return "|"
    try:
        return None if plain_value(text) is text else "'"
    except YamlInvalid:
        return "'"


_Dumper.add_representer(str, _represent_text)

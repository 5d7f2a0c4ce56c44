"""A graph's message as the plain values of a graph file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipestream.gen.ai.pipestream.config.v1 import pipeline_config_models_pb2 as config_pb2
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as data_pb2
from pipestream.graph.fields import MAX_SAFE_INTEGER
from pipestream.topic_names import TopicKind, TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.struct_pb2 import Struct, Value

    from pipestream.graph.report import Report
    from pipestream.wire import (
        DlqConfig,
        GraphDatasource,
        GraphEdge,
        GraphNode,
        PipelineGraph,
        ProcessingMapping,
    )

_CONFIG_TYPES = {
    "transform_config": "transform",
    "aggregate_config": "aggregate",
    "split_config": "split",
    "cel_config": "cel",
}


def values_of_message(message: PipelineGraph, report: Report) -> dict[str, Any]:
    """Return the values of a graph file that says what the message says.

    What a graph file cannot say goes to the report instead of being dropped.
    """
    return {
        **_given(
            graph=message.graph_id,
            cluster=message.cluster_id,
            name=message.name,
            description=message.description,
            mode=_word(config_pb2.GraphMode, message.mode, "GRAPH_MODE_"),
            schedule=message.schedule,
            happy_end=message.happy_end_node_id,
            error_end=message.error_end_node_id,
            max_hops=message.max_hops,
        ),
        "datasources": [
            _datasource(source, f"datasources[{index}]", report) for index, source in enumerate(message.datasources)
        ],
        "nodes": [_node(node, message, f"nodes[{index}]", report) for index, node in enumerate(message.nodes)],
        "edges": [_edge(edge, message, f"edges[{index}]", report) for index, edge in enumerate(message.edges)],
    }


def _node(node: GraphNode, graph: PipelineGraph, place: str, report: Report) -> dict[str, Any]:
    _refuse_unsupported(node, graph, place, report)
    return {
        **_given(
            id=node.node_id,
            name=node.name,
            type=_word(config_pb2.NodeType, node.node_type, "NODE_TYPE_"),
            module=node.module_id,
            engine=node.engine_address,
            config=_plain_struct(node.custom_config.json_config),
            config_params=dict(node.custom_config.config_params),
            filters=list(node.filter_conditions),
            pre_mappings=_mappings(node.pre_mappings),
            post_mappings=_mappings(node.post_mappings),
            visibility=_word(config_pb2.ClusterVisibility, node.visibility, "CLUSTER_VISIBILITY_"),
            timeout_s=node.timeout_s,
            partitions=node.kafka_partitions,
            retention_hours=node.retention_hours,
            slots=node.consumer_slots,
            ordering=node.ordering,
            start_at=node.start_at,
        ),
        **({"dead_letters": _dead_letters(node.dlq_config)} if node.HasField("dlq_config") else {}),
    }


def _refuse_unsupported(node: GraphNode, graph: PipelineGraph, place: str, report: Report) -> None:
    if node.cluster_id not in ("", graph.cluster_id):
        hint = "a graph lives in one cluster; an edge may lead to another"
        report.problem(f"{place}.cluster_id", f"{node.cluster_id}, but the graph's is {graph.cluster_id}", hint)
    own_topic = str(TopicName(TopicKind.NODE, graph.cluster_id, node.node_id))
    if node.kafka_input_topic not in ("", own_topic):
        hint = "set kafka_topic on the edges that lead to it"
        report.problem(f"{place}.kafka_input_topic", f"a node's own topic is always {own_topic}", hint)
    if node.mode == config_pb2.NODE_MODE_DESIGN:
        report.problem(f"{place}.mode", "a node cannot be in design alone", "set the mode of the graph")
    if node.repository_path:
        report.problem(f"{place}.repository_path", "objects have fixed keys", "remove it")
    if node.save_on_error:
        message = "a document that fails is always kept, by its dead letter or its error end"
        report.problem(f"{place}.save_on_error", message, "remove it")


def _dead_letters(policy: DlqConfig) -> dict[str, Any]:
    attempts = policy.max_retries + 1 if policy.max_retries else 0
    if policy.HasField("max_attempts"):
        attempts = policy.max_attempts
    return {
        "enabled": policy.enabled,
        "include_payload": policy.include_payload,
        **_given(topic=policy.topic_override, max_attempts=attempts, multiplier=policy.backoff_multiplier),
        **({"initial_backoff_ms": _milliseconds(policy.initial_backoff)} if policy.HasField("initial_backoff") else {}),
        **({"max_backoff_ms": _milliseconds(policy.max_backoff)} if policy.HasField("max_backoff") else {}),
    }


def _mappings(mappings: Iterable[ProcessingMapping]) -> list[dict[str, Any]]:
    found = []
    for mapping in mappings:
        config = mapping.WhichOneof("mapping_config")
        kind = _word(data_pb2.MappingType, mapping.mapping_type, "MAPPING_TYPE_")
        aggregation = mapping.aggregate_config.aggregation_type
        found.append(
            {
                **_given(
                    id=mapping.mapping_id,
                    type=kind or _CONFIG_TYPES.get(config or "", ""),
                    rule=mapping.transform_config.rule_name,
                    params=_plain_struct(mapping.transform_config.params),
                    aggregation=_word(data_pb2.AggregateConfig.AggregationType, aggregation, "AGGREGATION_TYPE_"),
                    delimiter=mapping.aggregate_config.delimiter or mapping.split_config.delimiter,
                    expression=mapping.cel_config.expression,
                    **{"from": list(mapping.source_field_paths)},
                ),
                "to": list(mapping.target_field_paths),
            }
        )
    return found


def _edge(edge: GraphEdge, graph: PipelineGraph, place: str, report: Report) -> dict[str, Any]:
    if edge.is_cross_cluster and edge.to_cluster_id in ("", graph.cluster_id):
        hint = "set to_cluster_id to the other cluster, or clear is_cross_cluster"
        report.problem(f"{place}.cluster", "is_cross_cluster is set, but the edge stays in its cluster", hint)
    transport = {0: "", 1: "kafka", 2: "grpc"}.get(edge.transport_type, str(edge.transport_type))
    return _given(
        id=edge.edge_id,
        to=edge.to_node_id,
        cluster=edge.to_cluster_id,
        when=edge.condition,
        priority=edge.priority,
        transport=transport,
        topic=edge.kafka_topic,
        max_hops=edge.max_hops,
        **{"from": edge.from_node_id},
    )


def _datasource(source: GraphDatasource, place: str, report: Report) -> dict[str, Any]:
    options = _plain_struct(source.connector_options)
    if "kind" in options:
        report.problem(f"{place}.connector.kind", "an option of a connector cannot be called kind", "rename it")
        del options["kind"]
    connector = {**_given(kind=source.connector_kind), **options}
    return _given(
        id=source.datasource_id,
        account=source.account_id,
        entry=source.entry_node_id,
        name=source.name,
        partitions=source.partitions,
        retention_hours=source.retention_hours,
        paused=source.paused,
        slots=source.slots,
        start_at=source.start_at,
        schedule=source.schedule,
        connector=connector,
    )


def _given(**values: Any) -> dict[str, Any]:
    """Return those values that a message says: protobuf writes an absent one as zero or empty."""
    return {key: value for key, value in values.items() if value}


def _word(enum: Any, number: int, prefix: str) -> str:
    """Return an enum's value as the word of a graph file: empty if unspecified, its number if unknown."""
    if number == 0:
        return ""
    if number not in enum.values():
        return str(number)
    return str(enum.Name(number)).removeprefix(prefix).lower()


def _milliseconds(duration: Duration) -> int:
    return duration.seconds * 1_000 + duration.nanos // 1_000_000


def _plain_struct(struct: Struct) -> dict[str, Any]:
    return {key: _plain_value(value) for key, value in struct.fields.items()}


def _plain_value(value: Value) -> Any:
    """Return a Struct's value. Whole numbers become whole again: a Struct has only doubles."""
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _plain_struct(value.struct_value)
        case "list_value":
            return [_plain_value(item) for item in value.list_value.values]
    return None

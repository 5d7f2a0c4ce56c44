"""Graphs on the wire: ``PipelineGraph`` in binary and JSON.

Export and import are each other's inverse. Import goes through the values of a graph file, so that a message
obeys the same rules as a file and fails with the same problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from pipestream.errors import GraphInvalid, Problem
from pipestream.gen.ai.pipestream.data.v1.pipeline_core_types_pb2 import AggregateConfig
from pipestream.graph.load import check_graph_values, restore_graph
from pipestream.graph.model import (
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    MappingType,
    Node,
)
from pipestream.graph.proto_values import values_of_message
from pipestream.graph.report import Report
from pipestream.graph.yamltree import MAX_BYTES
from pipestream.topic_names import node_topic
from pipestream.wire import (
    DlqConfig,
    GraphDatasource,
    GraphEdge,
    GraphNode,
    PipelineGraph,
    ProcessingMapping,
)

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct


def to_proto(graph: Graph) -> PipelineGraph:
    """Return a graph as its message."""
    return PipelineGraph(
        graph_id=graph.graph_id,
        cluster_id=graph.cluster_id,
        name=graph.name,
        description=graph.description,
        mode=f"GRAPH_MODE_{graph.mode.name}",
        nodes=[_node_message(node) for node in graph.nodes],
        edges=[_edge_message(edge) for edge in graph.edges],
        datasources=[_datasource_message(source) for source in graph.datasources],
        schedule=graph.schedule,
        happy_end_node_id=graph.happy_end,
        error_end_node_id=graph.error_end,
        max_hops=graph.max_hops,
    )


def from_proto(message: PipelineGraph, *, source: str = "proto") -> Graph:
    """Return the graph of a message.

    Times and the version number are not part of a graph; what keeps graphs knows them.

    :param source: what the problems call the message.
    :raises GraphInvalid: the message breaks the rules of a graph file; every problem is listed.
    """
    report = Report(source)
    check = check_graph_values(values_of_message(message, report), source)
    if report.problems:
        raise GraphInvalid([*report.problems, *check.problems])
    return check.require()


def to_binary(graph: Graph) -> bytes:
    """Return a graph as bytes, the same for the same graph in every process."""
    return to_proto(graph).SerializeToString(deterministic=True)


def from_binary(data: bytes, *, source: str = "proto") -> Graph:
    """Return the graph of a message's bytes.

    :raises GraphInvalid: these are no such bytes, or the graph breaks a rule.
    """
    return from_proto(_parse(data, source), source=source)


def from_kept(data: bytes, *, source: str) -> Graph:
    """Return the graph of bytes that ``to_binary`` made of a valid graph, without checking the rules again.

    :raises GraphInvalid: these are no such bytes.
    """
    return restore_graph(values_of_message(_parse(data, source), Report(source)), source)


def to_json(graph: Graph) -> str:
    """Return a graph as protobuf's JSON."""
    return json_format.MessageToJson(to_proto(graph), preserving_proto_field_name=True, ensure_ascii=False)


def from_json(text: str | bytes, *, source: str = "json") -> Graph:
    """Return the graph of protobuf's JSON.

    :raises GraphInvalid: this is no such JSON, or the graph breaks a rule.
    """
    _check_size(text, source)
    try:
        message = json_format.Parse(text, PipelineGraph())
    except (json_format.ParseError, ValueError, RecursionError) as error:
        message_text = str(error) or type(error).__name__
        raise GraphInvalid(
            [Problem(source, None, "file", f"not a PipelineGraph in JSON: {message_text[:300]}")]
        ) from None
    return from_proto(message, source=source)


def _parse(data: bytes, source: str) -> PipelineGraph:
    _check_size(data, source)
    message = PipelineGraph()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise GraphInvalid([Problem(source, None, "file", "these bytes are not a PipelineGraph")]) from None
    return message


def _check_size(data: str | bytes, source: str) -> None:
    if len(data) > MAX_BYTES:
        raise GraphInvalid([Problem(source, None, "file", f"has {len(data)} bytes; a graph has at most {MAX_BYTES}")])


def _node_message(node: Node) -> GraphNode:
    message = GraphNode(
        node_id=node.node_id,
        cluster_id=node.cluster_id,
        name=node.name,
        node_type=f"NODE_TYPE_{node.node_type.name}",
        module_id=node.module,
        visibility=f"CLUSTER_VISIBILITY_{node.visibility.name}",
        kafka_input_topic=node_topic(node.cluster_id, node.node_id),
        pre_mappings=[_mapping_message(mapping) for mapping in node.pre_mappings],
        post_mappings=[_mapping_message(mapping) for mapping in node.post_mappings],
        filter_conditions=node.filters,
        kafka_partitions=node.partitions or 0,
        consumer_slots=node.slots,
        engine_address=node.engine,
        timeout_s=node.timeout_s or 0,
        retention_hours=node.retention_hours or 0,
        ordering=node.ordering,
        start_at=node.start_at,
    )
    if node.config:
        message.custom_config.json_config.update(node.config)
    if node.config_params:
        message.custom_config.config_params.update(node.config_params)
    if node.dead_letters != DeadLetterPolicy():
        message.dlq_config.CopyFrom(_policy_message(node.dead_letters))
    return message


def _policy_message(policy: DeadLetterPolicy) -> DlqConfig:
    message = DlqConfig(
        enabled=policy.enabled,
        topic_override=policy.topic_override,
        backoff_multiplier=policy.backoff_multiplier,
        include_payload=policy.include_payload,
    )
    if policy.max_attempts is not None:
        # The wire counts what follows the first attempt, and cannot tell "none" from "not said".
        message.max_retries = policy.max_attempts - 1
        message.max_attempts = policy.max_attempts
    if policy.initial_backoff_ms is not None:
        message.initial_backoff.FromMilliseconds(policy.initial_backoff_ms)
    if policy.max_backoff_ms is not None:
        message.max_backoff.FromMilliseconds(policy.max_backoff_ms)
    return message


def _mapping_message(mapping: FieldMapping) -> ProcessingMapping:
    message = ProcessingMapping(
        mapping_id=mapping.mapping_id,
        source_field_paths=mapping.source_field_paths,
        target_field_paths=mapping.target_field_paths,
        mapping_type=f"MAPPING_TYPE_{mapping.mapping_type.name}",
    )
    match mapping.mapping_type:
        case MappingType.TRANSFORM:
            message.transform_config.rule_name = mapping.rule
            _fill(message.transform_config.params, mapping.params)
        case MappingType.AGGREGATE:
            kind = f"AGGREGATION_TYPE_{mapping.aggregation.upper()}"
            message.aggregate_config.CopyFrom(AggregateConfig(aggregation_type=kind))
            if mapping.delimiter:
                message.aggregate_config.delimiter = mapping.delimiter
        case MappingType.SPLIT:
            message.split_config.delimiter = mapping.delimiter
        case MappingType.CEL:
            message.cel_config.expression = mapping.expression
    return message


def _edge_message(edge: Edge) -> GraphEdge:
    kind = "MESSAGING" if edge.transport.value == "kafka" else "GRPC"
    message = GraphEdge(
        edge_id=edge.edge_id,
        from_node_id=edge.from_node_id,
        to_node_id=edge.to_node_id,
        is_cross_cluster=edge.is_cross_cluster,
        condition=edge.condition,
        priority=edge.priority,
        transport_type=f"TRANSPORT_TYPE_{kind}",
        max_hops=edge.max_hops,
    )
    if edge.to_cluster_id:
        message.to_cluster_id = edge.to_cluster_id
    if edge.kafka_topic:
        message.kafka_topic = edge.kafka_topic
    return message


def _datasource_message(source: Datasource) -> GraphDatasource:
    message = GraphDatasource(
        datasource_id=source.datasource_id,
        account_id=source.account_id,
        entry_node_id=source.entry_node_id,
        name=source.name,
        paused=source.paused,
        partitions=source.partitions or 0,
        retention_hours=source.retention_hours or 0,
        slots=source.slots,
        schedule=source.schedule,
        start_at=source.start_at,
    )
    if source.connector is not None:
        message.connector_kind = source.connector.kind
        _fill(message.connector_options, source.connector.options)
    return message


def _fill(struct: Struct, values: Any) -> None:
    if values:
        struct.update(values)

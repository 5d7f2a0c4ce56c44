"""A graph as its message, ``PipelineGraph`` in binary and JSON, and the hash that identifies it.

``load.py`` reads messages and checks the rules.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError

from pipestream.errors import GraphInvalid, Problem
from pipestream.gen.ai.pipestream.config.v1.pipeline_config_models_pb2 import NODE_MODE_DESIGN
from pipestream.graph.draft import restore_graph
from pipestream.graph.format import GRAPH
from pipestream.graph.model import Graph
from pipestream.graph.report import Report
from pipestream.graph.wire_fields import fill_message, message_values
from pipestream.graph.yamltree import MAX_BYTES
from pipestream.topic_names import TopicKind, TopicName, node_topic
from pipestream.wire import GraphDatasource, GraphEdge, GraphNode, PipelineGraph

# A process works on few graphs; a handful covers them and the versions that they had a moment ago.
_MOST_KEPT = 8


def to_proto(graph: Graph) -> PipelineGraph:
    """Return a graph as its message."""
    message = PipelineGraph()
    fill_message(GRAPH, graph, message)
    # Values that follow from other fields are written too, for readers that cannot derive them.
    for node in message.nodes:
        node.cluster_id = graph.cluster_id
        node.kafka_input_topic = node_topic(graph.cluster_id, node.node_id)
    for edge in message.edges:
        edge.is_cross_cluster = bool(edge.to_cluster_id)
    return message


def to_binary(graph: Graph) -> bytes:
    """Return a graph as bytes, the same for the same graph in every process."""
    return to_proto(graph).SerializeToString(deterministic=True)


def to_json(graph: Graph) -> str:
    """Return a graph as protobuf's JSON."""
    return json_format.MessageToJson(to_proto(graph), preserving_proto_field_name=True, ensure_ascii=False)


def from_kept(data: bytes, *, source: str) -> Graph:
    """Return the graph of bytes that ``to_binary`` made of a valid graph, without checking the rules again.

    :raises GraphInvalid: the bytes are not a graph.
    """
    try:
        return _restore(data)
    except GraphInvalid as error:
        raise GraphInvalid([replace(problem, file=source) for problem in error.problems]) from None


# A worker runs many tasks of few graphs; this covers a graph and the versions it had a moment ago.
@lru_cache(maxsize=16)
def _restore(data: bytes) -> Graph:
    return restore_graph(values_of_message(parse_binary(data, "graph"), Report("graph")), "graph")


def graph_hash(graph: Graph) -> str:
    """Return the SHA-256 of a graph's message in hex: the same for the same graph, whatever file it came from."""
    return sha256(to_binary(graph)).hexdigest()


@dataclass(frozen=True, slots=True)
class BuiltGraph:
    """One version of a graph, with its message and its hash. Two are the same if their hashes are.

    A run has a graph; its tasks get the graph's message, in this process or in a worker's. Large graphs take tens of
    milliseconds to build and to hash, so each version is built once per process, whichever way it arrives.
    """

    digest: str
    graph: Graph = field(compare=False, repr=False)
    content: bytes = field(compare=False, repr=False)
    """The graph's message."""


_kept: OrderedDict[bytes, BuiltGraph] = OrderedDict()
_lock = threading.Lock()


def built(graph: Graph) -> BuiltGraph:
    """Return a graph with its message and its hash."""
    return _keep(to_binary(graph), lambda _: graph)


def restore(content: bytes) -> BuiltGraph:
    """Return the graph of a message that ``built`` made, which was checked before.

    :raises GraphInvalid: the bytes are not such a message.
    """
    return _keep(content, lambda kept: from_kept(kept, source="the graph of a task"))


def _keep(content: bytes, build: Callable[[bytes], Graph]) -> BuiltGraph:
    with _lock:
        found = _kept.get(content)
        if found is None:
            found = _kept[content] = BuiltGraph(sha256(content).hexdigest(), build(content), content)
            if len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
        else:
            _kept.move_to_end(content)
        return found


def parse_binary(data: bytes, source: str) -> PipelineGraph:
    """Return the message of bytes.

    :raises GraphInvalid: they are not a PipelineGraph.
    """
    _check_size(data, source)
    message = PipelineGraph()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise GraphInvalid([Problem(source, None, "file", "these bytes are not a PipelineGraph")]) from None
    return message


def parse_json(text: str | bytes, source: str) -> PipelineGraph:
    """Return the message of protobuf's JSON.

    :raises GraphInvalid: it is not a PipelineGraph in JSON.
    """
    _check_size(text, source)
    try:
        return json_format.Parse(text, PipelineGraph())
    except (json_format.ParseError, ValueError, RecursionError) as error:
        message_text = str(error) or type(error).__name__
        raise GraphInvalid(
            [Problem(source, None, "file", f"not a PipelineGraph in JSON: {message_text[:300]}")]
        ) from None


def values_of_message(message: PipelineGraph, report: Report) -> dict[str, Any]:
    """Return the values of a graph file with the same content as the message.

    Fields that a graph file cannot express are reported instead of dropped.
    """
    for index, source in enumerate(message.datasources):
        _report_datasource(source, f"datasources[{index}]", report)
    for index, node in enumerate(message.nodes):
        _report_node(node, message.cluster_id, f"nodes[{index}]", report)
    for index, edge in enumerate(message.edges):
        _report_edge(edge, message.cluster_id, f"edges[{index}]", report)
    return message_values(GRAPH, message)


def _report_datasource(source: GraphDatasource, place: str, report: Report) -> None:
    if "kind" in source.connector_options.fields:
        report.problem(f"{place}.connector.kind", "an option of a connector cannot be called kind", "rename it")


def _report_node(node: GraphNode, cluster_id: str, place: str, report: Report) -> None:
    if node.cluster_id not in ("", cluster_id):
        hint = "a graph lives in one cluster; an edge may lead to another"
        report.problem(f"{place}.cluster_id", f"{node.cluster_id}, but the graph's is {cluster_id}", hint)
    own_topic = str(TopicName(TopicKind.NODE, cluster_id, node.node_id))
    if node.kafka_input_topic not in ("", own_topic):
        hint = "set kafka_topic on the edges that lead to it"
        report.problem(f"{place}.kafka_input_topic", f"a node's own topic is always {own_topic}", hint)
    if node.mode == NODE_MODE_DESIGN:
        report.problem(f"{place}.mode", "a node cannot be in design alone", "set the mode of the graph")
    if node.repository_path:
        report.problem(f"{place}.repository_path", "objects have fixed keys", "remove it")
    if node.save_on_error:
        message = "a document that fails is always kept, by its dead letter or its error end"
        report.problem(f"{place}.save_on_error", message, "remove it")


def _report_edge(edge: GraphEdge, cluster_id: str, place: str, report: Report) -> None:
    if edge.is_cross_cluster and edge.to_cluster_id in ("", cluster_id):
        hint = "set to_cluster_id to the other cluster, or clear is_cross_cluster"
        report.problem(f"{place}.cluster", "is_cross_cluster is set, but the edge stays in its cluster", hint)


def _check_size(data: str | bytes, source: str) -> None:
    if len(data) > MAX_BYTES:
        raise GraphInvalid([Problem(source, None, "file", f"has {len(data)} bytes; a graph has at most {MAX_BYTES}")])

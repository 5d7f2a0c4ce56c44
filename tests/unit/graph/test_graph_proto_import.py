"""Messages from elsewhere: what is understood, and what is refused instead of being dropped."""

from __future__ import annotations

import pytest

from pipestream.errors import GraphInvalid
from pipestream.gen.ai.pipestream.config.v1 import pipeline_config_models_pb2 as config_pb2
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as data_pb2
from pipestream.graph.load import from_binary, from_json, from_proto
from pipestream.graph.model import DeadLetterPolicy, MappingType, NodeType, Transport
from pipestream.graph.proto import from_kept, to_binary, to_proto
from pipestream.wire import DlqConfig, GraphEdge, GraphNode, PipelineGraph, ProcessingMapping


def message(**node):
    return PipelineGraph(
        graph_id="g",
        cluster_id="main",
        nodes=[
            GraphNode(**({"node_id": "a", "node_type": config_pb2.NODE_TYPE_CONNECTOR} | node)),
            GraphNode(node_id="happy-end", node_type=config_pb2.NODE_TYPE_SINK),
        ],
    )


def test_what_the_wire_leaves_out_has_the_defaults_of_a_file():
    sparse = message()
    sparse.edges.add(from_node_id="a", to_node_id="happy-end")
    graph = from_proto(sparse)

    assert (graph.max_hops, graph.happy_end) == (100, "happy-end")
    assert (graph.nodes[0].slots, graph.nodes[0].partitions, graph.nodes[0].cluster_id) == (1, None, "main")
    assert graph.nodes[0].dead_letters == DeadLetterPolicy()
    assert (graph.edges[0].edge_id, graph.edges[0].transport) == ("a--happy-end", Transport.KAFKA)


def test_retries_of_the_wire_are_attempts_after_the_first():
    graph = from_proto(message(dlq_config=DlqConfig(enabled=True, max_retries=3)))

    assert graph.nodes[0].dead_letters.max_attempts == 4


def test_a_configuration_and_its_parameters_stay_apart():
    config = data_pb2.ProcessConfiguration(config_params={"mode": "fast"})
    config.json_config.update({"threshold": 2})
    graph = from_proto(message(custom_config=config))

    assert graph.nodes[0].config == {"threshold": 2}
    assert type(graph.nodes[0].config["threshold"]) is int
    assert graph.nodes[0].config_params == {"mode": "fast"}
    assert to_proto(graph).nodes[0].custom_config == config


def test_a_mapping_without_a_type_has_that_of_its_configuration():
    mapping = ProcessingMapping(
        source_field_paths=["doc_id"], target_field_paths=["doc_id"], split_config=data_pb2.SplitConfig(delimiter=",")
    )

    assert from_proto(message(pre_mappings=[mapping])).nodes[0].pre_mappings[0].mapping_type is MappingType.SPLIT


def test_an_unspecified_node_is_a_processor():
    graph = from_proto(message(node_type=config_pb2.NODE_TYPE_UNSPECIFIED, module_id="grpc:host:5000"))

    assert graph.nodes[0].node_type is NodeType.PROCESSOR


@pytest.mark.parametrize(
    ("node", "field"),
    [
        ({"cluster_id": "other"}, "nodes[0].cluster_id"),
        ({"kafka_input_topic": "mine"}, "nodes[0].kafka_input_topic"),
        ({"mode": config_pb2.NODE_MODE_DESIGN}, "nodes[0].mode"),
        ({"repository_path": "x"}, "nodes[0].repository_path"),
        ({"save_on_error": True}, "nodes[0].save_on_error"),
        ({"node_id": "A B"}, "nodes[0].id"),
        ({"node_type": 77}, "nodes[0].type"),
        ({"kafka_partitions": -1}, "nodes[0].partitions"),
        ({"timeout_s": float("nan")}, "nodes[0].timeout_s"),
        ({"filter_conditions": ["doc.("]}, "nodes[0].filters[0]"),
        ({"module_id": "x"}, "nodes[0].module"),
    ],
)
def test_refuses_with_the_field(node, field):
    with pytest.raises(GraphInvalid) as caught:
        from_proto(message(**node))
    assert field in [problem.field for problem in caught.value.problems]
    assert {problem.line for problem in caught.value.problems} == {None}


@pytest.mark.parametrize(
    ("edge", "field"),
    [
        (GraphEdge(from_node_id="a", to_node_id="happy-end", is_cross_cluster=True), "edges[0].cluster"),
        (GraphEdge(from_node_id="a", to_node_id="nowhere"), "edges[0].to"),
        (GraphEdge(from_node_id="a", to_node_id="a"), "edges[0].max_hops"),
        (GraphEdge(from_node_id="a", to_node_id="happy-end", transport_type=9), "edges[0].transport"),
        (GraphEdge(from_node_id="a", to_node_id="x", to_cluster_id="o", transport_type=2), "edges[0].transport"),
    ],
)
def test_refuses_an_edge_with_the_field(edge, field):
    sent = message()
    sent.edges.append(edge)

    with pytest.raises(GraphInvalid) as caught:
        from_proto(sent)
    assert [problem.field for problem in caught.value.problems] == [field]


def test_a_target_in_another_cluster_needs_no_flag():
    sent = message()
    sent.edges.add(from_node_id="a", to_node_id="far", to_cluster_id="other")

    assert from_proto(sent).edges[0].is_cross_cluster


def test_the_source_is_named_in_the_problems():
    with pytest.raises(GraphInvalid, match=r"^upload\.pb: file: these bytes are not a PipelineGraph$"):
        from_binary(b"\xff\xff", source="upload.pb")
    with pytest.raises(GraphInvalid, match=r"^upload\.json: file: not a PipelineGraph in JSON"):
        from_json("{", source="upload.json")
    with pytest.raises(GraphInvalid, match="not a PipelineGraph in JSON"):
        from_json('{"graph_id": "g", "no_such_field": 1}')


def test_bytes_are_the_same_whatever_the_order_of_a_configuration():
    forward, backward = message(), message()
    forward.nodes[0].custom_config.json_config.update({"a": 1, "b": 2})
    backward.nodes[0].custom_config.json_config.update({"b": 2, "a": 1})

    assert to_binary(from_proto(forward)) == to_binary(from_proto(backward))


def test_a_kept_graph_stays_readable_when_a_rule_comes_later():
    kept = message(module_id="a form of module that is no longer known").SerializeToString()

    assert from_kept(kept, source="version 1").nodes[0].module == "a form of module that is no longer known"
    with pytest.raises(GraphInvalid):
        from_binary(kept)
    with pytest.raises(GraphInvalid, match="version 1: file: these bytes are not a PipelineGraph"):
        from_kept(b"\xff", source="version 1")

from __future__ import annotations

from functools import partial

import pytest

from pipestream.engine import explain as explaining
from pipestream.engine.explain import MAX_STEPS
from pipestream.graph.model import Datasource, Edge, FieldMapping, Graph, MappingType, Node, NodeType, Transport
from pipestream.wire import PipeDoc, PipeStream

explain = partial(explaining.explain, engine="cel-expr")

NODES = (
    Node("parser", "main", module="python:never.run:this"),
    Node("chunker", "main", filters=('doc.search_metadata.document_type == "PDF"',)),
    Node("happy-end", "main", node_type=NodeType.SINK),
)
EDGES = (
    Edge("to-chunker", "parser", "chunker", condition='doc.search_metadata.document_type == "PDF"', priority=1),
    Edge("to-end", "parser", "happy-end", condition='doc.search_metadata.document_type != "PDF"', priority=2),
    Edge(
        "abroad", "parser", "archive", to_cluster_id="eu", is_cross_cluster=True, transport=Transport.GRPC, priority=3
    ),
    Edge("chunks", "chunker", "happy-end", transport=Transport.GRPC),
)
SOURCE = (Datasource("ds", "acme", "parser"),)


def graph_of(nodes=NODES, edges=EDGES, **rest) -> Graph:
    return Graph("g", "main", nodes=nodes, edges=edges, **{"datasources": SOURCE, **rest})


def document(document_type: str = "PDF") -> PipeDoc:
    made = PipeDoc(doc_id="doc-1")
    made.search_metadata.document_type = document_type
    return made


def test_every_edge_is_shown_with_its_outcome_and_where_it_writes():
    first = explain(graph_of(), document()).steps[0]

    assert [(edge.edge_id, edge.matches, edge.destination, edge.topic) for edge in first.edges] == [
        ("to-chunker", True, "kafka pipestream.main.chunker", "pipestream.main.chunker"),
        ("to-end", False, "kafka pipestream.main.happy-end", "pipestream.main.happy-end"),
        ("abroad", True, "kafka bridge.eu.archive", "bridge.eu.archive"),
    ]


def test_matching_edges_are_followed_from_the_datasources_entry():
    found = explain(graph_of(), document())

    assert [(step.number, step.came_from, step.node_id, step.hop) for step in found.steps] == [
        (1, 0, "parser", 1),
        (2, 1, "chunker", 2),
    ]


def test_a_document_rests_in_an_end_without_a_module_and_one_with_a_module_runs():
    nodes = (*NODES[:2], Node("happy-end", "main", node_type=NodeType.SINK, module="python:never.run:that"))

    at_rest = explain(graph_of(), document()).steps[-1]
    run = explain(graph_of(nodes=nodes), document()).steps[-1]

    assert at_rest.edges[0].destination == "kafka pipestream.main.happy-end"
    assert (run.node_id, run.module, run.note) == ("happy-end", "python:never.run:that", "the end of the route")


def test_a_node_of_a_remote_engine_is_handed_over():
    nodes = (NODES[0], Node("chunker", "main", engine="engine:49000"), NODES[2])
    edges = (Edge("far", "parser", "chunker", transport=Transport.GRPC), EDGES[3])

    first, last = explain(graph_of(nodes=nodes, edges=edges), document()).steps

    assert first.edges[0].destination == "grpc engine:49000"
    assert (last.edges, last.note) == ((), "the remote engine engine:49000 processes it, and sends it on")


def test_filters_are_shown_and_a_document_that_fails_one_is_still_routed():
    found = explain(graph_of(), document("HTML"), start_node_id="chunker")

    assert [step.node_id for step in found.steps] == ["chunker"]
    assert found.steps[0].edges[0].matches
    assert found.steps[0].filters[0].holds is False
    assert "the module is skipped" in found.steps[0].note


def test_the_stream_says_where_to_start():
    found = explain(graph_of(), document(), PipeStream(current_node_id="chunker", hop_count=4))

    assert (found.steps[0].node_id, found.steps[0].hop) == ("chunker", 5)


def test_a_condition_that_fails_is_reported_and_ends_the_route():
    edges = (
        Edge("a", "parser", "happy-end", condition="doc.search_metadata.custom_fields.x == 1"),
        Edge("b", "parser", "happy-end"),
    )
    found = explain(graph_of(edges=edges), document())

    (step,) = found.steps
    assert step.edges[0].matches is None
    assert "ey not found" in step.edges[0].error
    assert step.edges[1].matches is None
    assert step.note.startswith("condition of edge a: ")
    assert step.note.endswith(": the document becomes a dead letter")


def test_a_failure_goes_to_the_error_end_where_the_graph_names_one():
    nodes = (Node("parser", "main", filters=("1 / 0 == 1",)), *NODES[1:])

    (step,) = explain(graph_of(nodes=nodes, error_end="broken"), document()).steps

    assert step.filters[0].holds is None
    assert step.note.endswith(": the document goes to broken")


def test_no_matching_edge_ends_the_route_happily():
    edges = (Edge("a", "parser", "chunker", condition="false"),)

    (step,) = explain(graph_of(edges=edges), document()).steps

    assert step.note == "no edge matches: the route ends at happy-end"


def test_mappings_are_applied_though_modules_are_not():
    retype = FieldMapping("m", MappingType.CEL, (), ("search_metadata.document_type",), expression='"TEXT"')
    nodes = (Node("parser", "main", post_mappings=(retype,)), *NODES[1:])

    first = explain(graph_of(nodes=nodes), document()).steps[0]

    assert [edge.matches for edge in first.edges] == [False, True, True]


def test_a_mapping_that_fails_is_reported():
    broken = FieldMapping("m", MappingType.CEL, (), ("doc_id",), expression="string(1 / 0)")

    (step,) = explain(graph_of(nodes=(Node("parser", "main", pre_mappings=(broken,)), *NODES[1:])), document()).steps

    assert step.note.startswith("mapping m: ")


LOOP = (Node("parser", "main"), Node("happy-end", "main", node_type=NodeType.SINK))


@pytest.mark.parametrize(
    ("edge_hops", "graph_hops", "visits", "note"),
    [
        pytest.param(2, 100, 3, "edge again was taken 2 times, and it allows 2", id="of the edge"),
        pytest.param(0, 5, 6, "5 hops, and graph g allows 5", id="of the graph"),
    ],
)
def test_a_loop_is_followed_up_to_its_limit(edge_hops, graph_hops, visits, note):
    edges = (Edge("again", "parser", "parser", max_hops=edge_hops),)
    found = explain(graph_of(nodes=LOOP, edges=edges, max_hops=graph_hops), document())

    assert len(found.steps) == visits
    assert note in found.steps[-1].note


def test_branches_that_multiply_are_cut_off():
    edges = tuple(Edge(f"again-{number}", "parser", "parser", max_hops=50) for number in range(3))
    found = explain(graph_of(nodes=LOOP, edges=edges), document())

    assert len(found.steps) == MAX_STEPS
    assert f"stopped after {MAX_STEPS} steps" in found.notes[-1]


def test_a_graph_without_datasources_starts_where_no_edge_leads():
    assert explain(graph_of(datasources=()), document()).steps[0].node_id == "parser"


def test_a_node_the_graph_does_not_have_is_reported():
    (step,) = explain(graph_of(), document(), start_node_id="nowhere").steps

    assert step.note.startswith("graph g has no node 'nowhere'")
    assert step.note.endswith(": the document becomes a dead letter")


def test_the_explanation_reads_as_text():
    assert explain(graph_of(), document()).render() == [
        "document doc-1 in graph g",
        "note: modules are not run: every condition sees the document as it is before any of them",
        "1. parser (hop 1, without python:never.run:this)",
        '   ✓ to-chunker → chunker (kafka pipestream.main.chunker) when doc.search_metadata.document_type == "PDF"',
        '   ✗ to-end → happy-end (kafka pipestream.main.happy-end) when doc.search_metadata.document_type != "PDF"',
        "   ✓ abroad → archive (kafka bridge.eu.archive) when always",
        "2. chunker (hop 2, from step 1)",
        '   filter doc.search_metadata.document_type == "PDF": holds',
        "   ✓ chunks → happy-end (kafka pipestream.main.happy-end) when always",
    ]


def test_a_parser_is_explained_without_fetching_the_blobs_of_the_document():
    made = document()
    made.blob_bag.blob.storage_ref.object_key = "blobs/acme/ds/doc-1/0"
    graph = graph_of((Node("parser", "main", module="python:never.run:this", parser=True), *NODES[1:]))

    steps = [step.node_id for step in explain(graph, made).steps]

    assert steps[0] == "parser"

from __future__ import annotations

import textwrap

import pytest

from pipestream.graph.flow import Destination, Way, destination_of
from pipestream.graph.layout import links_of
from pipestream.graph.load import check_graph_text
from pipestream.graph.show import show_edges

GRAPH = check_graph_text(
    textwrap.dedent("""
        graph: g
        cluster: main
        nodes:
          - {id: a, type: connector}
          - {id: b, type: connector}
          - {id: far, type: connector, engine: "engine:49000"}
          - {id: kept, type: sink}
          - {id: saved, type: sink, module: "python:json:loads"}
        edges:
          - {id: by-kafka, from: a, to: b}
          - {id: by-own-topic, from: a, to: b, topic: mine}
          - {id: fused, from: b, to: a, transport: grpc, max_hops: 1}
          - {id: fused-end, from: a, to: saved, transport: grpc}
          - {id: remote, from: a, to: far, transport: grpc}
          - {id: remote-by-kafka, from: b, to: far}
          - {id: bridge, from: a, to: b, cluster: other}
          - {id: rest, from: a, to: kept}
          - {id: rest-by-grpc, from: b, to: kept, transport: grpc}
    """).encode(),
    "g.yaml",
).require()
EDGES = {edge.edge_id: edge for edge in GRAPH.edges}


@pytest.mark.parametrize(
    ("edge_id", "destination", "text"),
    [
        ("by-kafka", Destination(Way.NODE, "pipestream.main.b"), "kafka pipestream.main.b"),
        ("by-own-topic", Destination(Way.NODE, "mine"), "kafka mine"),
        ("fused", Destination(Way.FUSED), "fused"),
        ("fused-end", Destination(Way.FUSED), "fused"),
        ("remote", Destination(Way.ENGINE, engine="engine:49000"), "grpc engine:49000"),
        ("remote-by-kafka", Destination(Way.NODE, "pipestream.main.far"), "kafka pipestream.main.far"),
        ("bridge", Destination(Way.BRIDGE, "bridge.other.b"), "kafka bridge.other.b"),
        ("rest", Destination(Way.REST, "pipestream.main.kept"), "kafka pipestream.main.kept"),
        ("rest-by-grpc", Destination(Way.REST, "pipestream.main.kept"), "kafka pipestream.main.kept"),
    ],
)
def test_an_edge_writes_to_one_place(edge_id, destination, text):
    found = destination_of(EDGES[edge_id], GRAPH)

    assert found == destination
    assert str(found) == text


def test_a_grpc_edge_to_an_end_without_a_module_is_drawn_and_listed_as_what_it_is():
    (link,) = [link for link in links_of(GRAPH) if (link.start, link.end) == ("b", "kept")]
    table = show_edges(GRAPH)
    ids = [edge.edge_id for node in GRAPH.nodes for edge in GRAPH.edges_from[node.node_id]]
    transports, topics = (list(table.columns[index].cells) for index in (2, 3))
    row = ids.index("rest-by-grpc")

    assert not link.fused
    assert (str(transports[row]), str(topics[row])) == ("kafka", "pipestream.main.kept")

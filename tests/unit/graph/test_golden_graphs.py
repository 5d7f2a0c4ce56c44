"""The hash of a graph is its identity in the ledger, so no change of the code may change it."""

from __future__ import annotations

import pytest

from pipestream.graph.load import check_graph_text, from_json
from pipestream.graph.model import (
    Datasource,
    DeadLetterPolicy,
    Edge,
    FieldMapping,
    Graph,
    Hydration,
    LiveServers,
    Node,
    Persistence,
)
from pipestream.graph.proto import from_kept, graph_hash, to_binary, to_json
from pipestream.graph.write import to_yaml
from pipestream_testing.golden_graphs import RANDOM_GRAPHS, read_golden_graphs

GOLDEN = read_golden_graphs()


def load(golden):
    return check_graph_text(golden.text.encode(), golden.name).require()


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_graph_has_the_hash_that_it_always_had(golden):
    assert graph_hash(load(golden)) == golden.hash


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_graph_keeps_its_hash_through_every_form(golden):
    graph = load(golden)

    assert graph_hash(from_kept(to_binary(graph), source="kept")) == golden.hash
    assert graph_hash(from_json(to_json(graph))) == golden.hash
    assert graph_hash(check_graph_text(to_yaml(graph).encode(), "again").require()) == golden.hash


def test_the_golden_graphs_are_a_hundred_and_use_every_field():
    graphs = [load(golden) for golden in GOLDEN]
    nodes = [node for graph in graphs for node in graph.nodes]
    parts = [
        *graphs,
        *nodes,
        *(edge for graph in graphs for edge in graph.edges),
        *(source for graph in graphs for source in graph.datasources),
        *(graph.live for graph in graphs),
        *(graph.arrival for graph in graphs),
        *(node.dead_letters for node in nodes),
        *(node.hydration for node in nodes),
        *(source.persistence for graph in graphs for source in graph.datasources),
        *(mapping for node in nodes for mapping in (*node.pre_mappings, *node.post_mappings)),
    ]

    assert len(GOLDEN) >= RANDOM_GRAPHS
    for kind in (Graph, Node, Edge, Datasource, DeadLetterPolicy, FieldMapping, Hydration, LiveServers, Persistence):
        for name in kind.__dataclass_fields__:
            values = {repr(getattr(part, name)) for part in parts if isinstance(part, kind)}
            assert len(values) > 1 or name == "cluster_id", f"{kind.__name__}.{name} is always {values}"

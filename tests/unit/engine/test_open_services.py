from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.engine.services import open_services
from pipestream.errors import GraphInvalid
from pipestream.graph.model import Edge, Graph, Node, NodeType
from pipestream.graph.proto import built
from pipestream.settings import Settings

SETTINGS = Settings()
GRAPH = Graph(
    "g",
    "main",
    (
        Node("a", "main", module="python:pipestream_testing.steps:pass_on"),
        Node("happy-end", "main", node_type=NodeType.SINK),
    ),
    (Edge("a--end", "a", "happy-end", condition='doc.doc_id == "d"'),),
)


def conditions_of(graph):
    with open_services(built(graph), SETTINGS, ["a"]) as services:
        return services.conditions


def test_conditions_are_compiled_once_per_graph_version_in_a_worker():
    changed = replace(GRAPH, edges=(replace(GRAPH.edges[0], condition='doc.doc_id == "e"'),))

    first = conditions_of(GRAPH)

    assert conditions_of(replace(GRAPH)) is first
    assert conditions_of(changed) is not first


def test_a_module_that_cannot_be_found_is_refused_before_any_document():
    lost = replace(GRAPH, nodes=(replace(GRAPH.nodes[0], module="python:nowhere.at_all:step"), GRAPH.nodes[1]))

    with pytest.raises(GraphInvalid, match="nowhere"), open_services(built(lost), SETTINGS, ["a"]):
        pass

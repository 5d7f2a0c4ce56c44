"""Routing against a reference that needs no compiling: conditions whose meaning a few lines of Python know."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.engine.graph_conditions import compile_conditions
from pipestream.errors import ConditionError
from pipestream.graph.model import Edge, Graph, Node
from pipestream.wire import PipeDoc, PipeStream

TITLES = ["", "a", "b"]
ERROR = "error"


def atoms() -> dict[str, object]:
    """Conditions, and what each means in Python; a KeyError is an evaluation that fails."""
    return {
        "": lambda doc: True,
        "true": lambda doc: True,
        "false": lambda doc: False,
        "has(doc.search_metadata.title)": lambda doc: doc.search_metadata.HasField("title"),
        'doc.search_metadata.title == "a"': lambda doc: doc.search_metadata.title == "a",
        "doc.search_metadata.content_length > 5": lambda doc: doc.search_metadata.content_length > 5,
        '"k" in doc.search_metadata.metadata': lambda doc: "k" in doc.search_metadata.metadata,
        'doc.search_metadata.metadata["k"] == "a"': lambda doc: dict(doc.search_metadata.metadata)["k"] == "a",
    }


ATOMS = atoms()
CONDITIONS = st.one_of(
    st.sampled_from(list(ATOMS)),
    st.tuples(st.sampled_from(["&&", "||"]), st.sampled_from(list(ATOMS)[1:]), st.sampled_from(list(ATOMS)[1:])),
)


def text_of(condition) -> str:
    return condition if isinstance(condition, str) else f"({condition[1]}) {condition[0]} ({condition[2]})"


def truth(condition, doc) -> object:
    if isinstance(condition, str):
        try:
            return ATOMS[condition](doc)
        except KeyError:
            return ERROR
    operator, left, right = condition
    found = {truth(left, doc), truth(right, doc)}
    decisive = operator == "||"
    return decisive if decisive in found else ERROR if ERROR in found else not decisive


def reference(edges, conditions, node_id, doc) -> object:
    """All matches of the node's edges by priority, then id; the first edge that fails ends it."""
    matched = []
    mine = [edge for edge in edges if edge.from_node_id == node_id]
    for edge in sorted(mine, key=lambda edge: (edge.priority, edge.edge_id)):
        outcome = truth(conditions[edge.edge_id], doc)
        if outcome == ERROR:
            return f"failed at {edge.edge_id}"
        if outcome:
            matched.append(edge.edge_id)
    return matched


@st.composite
def documents(draw):
    doc = PipeDoc(doc_id="d")
    if draw(st.booleans()):
        doc.search_metadata.title = draw(st.sampled_from(TITLES))
    if draw(st.booleans()):
        doc.search_metadata.content_length = draw(st.integers(-10, 20))
    doc.search_metadata.metadata.update(draw(st.dictionaries(st.sampled_from("kl"), st.sampled_from("ab"))))
    return doc


@st.composite
def graphs(draw):
    nodes = tuple(Node(f"n{number}", "main") for number in range(draw(st.integers(1, 4))))
    ids = st.sampled_from([node.node_id for node in nodes])
    conditions = draw(st.lists(CONDITIONS, max_size=8))
    edges = [
        Edge(f"e{number}", draw(ids), draw(ids), condition=text_of(condition), priority=draw(st.integers(-2, 2)))
        for number, condition in enumerate(conditions)
    ]
    meaning = {edge.edge_id: condition for edge, condition in zip(edges, conditions, strict=True)}
    return Graph("g", "main", nodes=nodes, edges=tuple(draw(st.permutations(edges)))), meaning


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(made=graphs(), held=st.lists(documents(), min_size=1, max_size=3))
def test_routing_equals_the_reference_on_random_graphs_and_documents(engine, made, held):
    graph, meaning = made
    conditions = compile_conditions(graph, engine)
    for doc in held:
        activation = conditions.activation(PipeStream(), doc)
        for node in graph.nodes:
            try:
                routed = [edge.edge_id for edge in conditions.matching_edges(node.node_id, activation)]
            except ConditionError as error:
                routed = f"failed at {error.edge_id}"
            assert routed == reference(graph.edges, meaning, node.node_id, doc)

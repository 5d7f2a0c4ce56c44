from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipestream.engine.graph_conditions import compile_conditions
from pipestream.errors import ConditionError, TerminalError
from pipestream.graph.model import Edge, Graph, Node
from pipestream.wire import PipeDoc, PipeStream

ENGINES = ["cel-expr", "celpy"]


def graph_of(*edges: Edge, filters: tuple[str, ...] = ()) -> Graph:
    targets = {edge.to_node_id for edge in edges}
    nodes = (Node("start", "main", filters=filters), *(Node(name, "main") for name in sorted(targets)))
    return Graph("g", "main", nodes=nodes, edges=edges)


def edge(edge_id: str, condition: str = "", priority: int = 0) -> Edge:
    return Edge(edge_id, "start", f"to-{edge_id}", condition=condition, priority=priority)


def document(**metadata: str) -> PipeDoc:
    made = PipeDoc(doc_id="d")
    for name, value in metadata.items():
        setattr(made.search_metadata, name, value)
    return made


def taken(graph: Graph, held: PipeDoc, engine: str = "cel-expr") -> list[str]:
    conditions = compile_conditions(graph, engine)
    activation = conditions.activation(PipeStream(stream_id="s"), held)
    return [found.edge_id for found in conditions.matching_edges("start", activation)]


@pytest.mark.parametrize("engine", ENGINES)
def test_all_matching_edges_are_taken_in_priority_order(engine):
    graph = graph_of(
        edge("c", 'doc.search_metadata.title == "t"', priority=1),
        edge("b", priority=2),
        edge("never", 'doc.search_metadata.title == "other"'),
        edge("a", "has(doc.search_metadata.title)", priority=2),
    )

    assert taken(graph, document(title="t"), engine) == ["c", "a", "b"]


@pytest.mark.parametrize("condition", ["", "  \n "])
def test_an_empty_condition_always_matches(condition):
    assert taken(graph_of(edge("e", condition)), PipeDoc()) == ["e"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_condition_that_fails_names_its_edge(engine):
    graph = graph_of(edge("fine"), edge("broken", "doc.search_metadata.custom_fields.x == 1", priority=1))

    with pytest.raises(ConditionError, match=r"condition of edge broken: .*[Kk]ey not found in map") as caught:
        taken(graph, PipeDoc(), engine)

    assert isinstance(caught.value, TerminalError)
    assert caught.value.edge_id == "broken"
    assert pickle.loads(pickle.dumps(caught.value)).edge_id == "broken"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        pytest.param((), True, id="none"),
        pytest.param(('doc.doc_id == "d"', "true"), True, id="all hold"),
        pytest.param(('doc.doc_id == "d"', "false"), False, id="one does not"),
        pytest.param(("false", "1 / 0 == 1"), False, id="the first that fails settles it"),
    ],
)
def test_a_document_passes_when_all_filters_hold(engine, filters, passes):
    graph = graph_of(filters=filters)
    conditions = compile_conditions(graph, engine)

    activation = conditions.activation(PipeStream(), document())

    assert conditions.passes_filters(graph.nodes[0], activation) is passes


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_that_fails_names_its_node_and_number(engine):
    graph = graph_of(filters=("true", "1 / 0 == 1"))
    conditions = compile_conditions(graph, engine)

    with pytest.raises(ConditionError, match=r"start:filter\[1\]: .*divide by zero"):
        conditions.passes_filters(graph.nodes[0], conditions.activation(PipeStream(), PipeDoc()))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_that_was_never_checked_does_not_compile(engine):
    with pytest.raises(ConditionError, match=r"field '?nope") as caught:
        compile_conditions(graph_of(edge("e", "doc.nope == 1")), engine)

    assert caught.value.edge_id == "e"


def test_a_node_without_edges_matches_none():
    conditions = compile_conditions(graph_of(), "cel-expr")

    assert conditions.matching_edges("start", conditions.activation(PipeStream(), PipeDoc())) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_may_share_the_conditions_of_a_graph(engine):
    graph = graph_of(edge("e", "doc.search_metadata.keywords.keyword.exists(k, k == doc.doc_id)"))
    conditions = compile_conditions(graph, engine)

    def run(number: int) -> bool:
        held = PipeDoc(doc_id=str(number))
        held.search_metadata.keywords.keyword.extend(str(each) for each in range(0, 200, 2))
        activation = conditions.activation(PipeStream(), held)
        return bool(conditions.matching_edges("start", activation))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(200))) == [number % 2 == 0 for number in range(200)]

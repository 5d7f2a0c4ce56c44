from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from google.protobuf.json_format import ParseDict

from pipestream.engine.graph_conditions import compile_conditions
from pipestream.errors import ConditionError
from pipestream.graph.model import Edge, Graph, Node
from pipestream.routing.conditions import check_condition
from pipestream.routing.engine import open_engine
from pipestream.wire import PipeDoc, PipeStream

TABLE = yaml.safe_load(Path(__file__).with_name("condition_cases.yaml").read_text())
STREAM = ParseDict(TABLE["stream"], PipeStream())
CASES = [
    pytest.param(group["document"], text, expected, id=f"{group['document']}-{expected}-{text}")
    for group in TABLE["cases"]
    for expected in ("true", "false", "error")
    for text in group[expected]
]


def document_named(name: str) -> PipeDoc:
    return ParseDict(TABLE["documents"][name], PipeDoc())


def outcome(engine: str, text: str, document: PipeDoc) -> str:
    graph = Graph(
        "g", "main", nodes=(Node("a", "main"), Node("b", "main")), edges=(Edge("e", "a", "b", condition=text),)
    )
    conditions = compile_conditions(graph, engine)
    try:
        edges = conditions.matching_edges("a", conditions.activation(STREAM, document))
    except ConditionError as error:
        return "error" if error.edge_id == "e" else f"error of {error.edge_id}"
    return "true" if edges else "false"


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
@pytest.mark.parametrize(("document", "text", "expected"), CASES)
def test_a_condition_gives_what_the_table_says(engine, document, text, expected):
    assert outcome(engine, text, document_named(document)) == expected


@pytest.mark.parametrize(("document", "text", "expected"), CASES)
def test_a_condition_of_the_table_passes_the_checks_of_both_engines(document, text, expected):
    assert check_condition(text) == []
    assert open_engine("celpy").check(text, boolean=True) == []


def test_the_table_is_as_large_as_promised():
    assert len(CASES) >= 150
    assert len({(case.values[0], case.values[1]) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("engine", ["cel-expr", "celpy"])
@pytest.mark.parametrize(("document", "text", "expected"), CASES[::7])
def test_evaluation_leaves_the_document_as_it_was(engine, document, text, expected):
    held = document_named(document)
    outcome(engine, text, held)

    assert held == document_named(document)

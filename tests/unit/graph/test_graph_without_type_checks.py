"""Where Google's CEL engine is not installed, conditions are checked without their types."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from pipestream.graph.load import check_graph_text
from pipestream.routing.engine import open_engine

NUMBERS = count()
HEAD = "graph: g\ncluster: main\nnodes: [{id: a, type: connector%s}, {id: b, type: connector}]\n"
PLAIN = HEAD % "" + "edges: [{from: a, to: b}]\ndatasources: [{id: s, account: x, entry: a}]\n"
WITH_CONDITION = PLAIN.replace("to: b", "to: b, when: 'has(doc.search_metadata.title)'")
WITH_FILTER = PLAIN.replace("connector}, {id: b", "connector, filters: ['has(doc.search_metadata.title)']}, {id: b")
MAPPING = "{type: cel, to: search_metadata.title, expression: doc.doc_id}"
WITH_MAPPING = PLAIN.replace("connector}, {id: b", f"connector, pre_mappings: [{MAPPING}]}}, {{id: b")


@pytest.fixture
def no_cel_expr(monkeypatch):
    monkeypatch.setitem(sys.modules, "pipestream.routing.cel_expr", None)
    open_engine.cache_clear()
    yield
    open_engine.cache_clear()


def warnings_of(text):
    # A text that was read before is not checked again.
    check = check_graph_text(f"{text}# {next(NUMBERS)}".encode(), "g.yaml")
    assert check.problems == ()
    return [str(warning) for warning in check.warnings]


@pytest.mark.usefixtures("no_cel_expr")
@pytest.mark.parametrize("text", [WITH_CONDITION, WITH_FILTER, WITH_MAPPING], ids=["condition", "filter", "mapping"])
def test_without_cel_expr_saving_says_that_types_are_not_checked(text):
    (warning,) = warnings_of(text)

    assert "the types in CEL expressions are not checked: cel-expr-python is not installed" in warning


@pytest.mark.usefixtures("no_cel_expr")
def test_a_graph_without_expressions_needs_no_such_warning():
    assert warnings_of(PLAIN) == []


def test_with_cel_expr_types_are_checked_and_nothing_is_said():
    assert warnings_of(WITH_CONDITION) == []

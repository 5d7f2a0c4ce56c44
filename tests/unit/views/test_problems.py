from __future__ import annotations

import pytest

from pipestream.views.problems import check_text

GRAPH = """graph: g
cluster: c
nodes:
  - id: first
    modul: x
  - {id: second, timeout_s: never}
"""


def test_each_problem_has_the_column_of_its_field():
    found = check_text(GRAPH.encode(), look_up=False)

    places = {(problem.line, problem.column) for problem in found.problems}
    assert found.graph is None
    assert (5, 5) in places
    assert (6, 18) in places


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"- a", b"graph: [", b"a: *b", b"\0" * 10])
def test_any_bytes_are_a_problem_and_never_an_error(data):
    found = check_text(data, look_up=False)

    assert found.problems

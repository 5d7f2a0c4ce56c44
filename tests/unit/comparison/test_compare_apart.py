from __future__ import annotations

import time

import pytest

from pipestream.comparison.apart import ComparisonFailed, compare_apart
from pipestream.comparison.compare import CompareRequest
from pipestream.errors import RequestInvalid
from pipestream.graph.model import Datasource, Graph, Node

GRAPH = Graph("g", "main", (Node("only", "main"),), datasources=(Datasource("ds", "acme", "only"),))


def test_a_refusal_of_the_child_is_the_same_refusal_here():
    with pytest.raises(RequestInvalid, match=r"the applied graph does not drain nothing; it drains intake\.ds"):
        compare_apart(GRAPH, GRAPH, CompareRequest(topics=("nothing",)), 60)


def test_a_child_that_takes_too_long_is_killed(monkeypatch, tmp_path):
    """Python imports this module when it starts, so the child does not get further than that."""
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begun = time.monotonic()

    with pytest.raises(ComparisonFailed, match="compare fewer documents"):
        compare_apart(GRAPH, GRAPH, CompareRequest(), 5)

    assert time.monotonic() - begun < 60

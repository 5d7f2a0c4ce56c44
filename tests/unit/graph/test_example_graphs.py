"""The graphs in ``examples/`` obey all rules, and show what they are there for."""

from __future__ import annotations

from pathlib import Path

from pipestream.graph.folder import check_graph_files, find_graph_files
from pipestream.graph.load import load_graph

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_every_example_of_a_graph_obeys_the_rules_and_finds_its_modules():
    files = find_graph_files(EXAMPLES)

    found = check_graph_files(files, look_up=True)

    assert files
    assert [*found.problems] == []


def test_the_example_of_a_live_graph_names_its_servers():
    assert load_graph(EXAMPLES / "live_graph.yaml").live.wanted == {"engine": "external", "sidecar": "external"}

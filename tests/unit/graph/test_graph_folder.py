"""Graphs that are loaded together."""

from __future__ import annotations

import pytest

from pipestream.errors import GraphInvalid
from pipestream.graph.folder import load_graphs

GRAPH = """\
graph: {graph}
cluster: {cluster}
datasources:
  - {{id: {datasource}, account: {account}, entry: {node}, partitions: {partitions}}}
nodes:
  - {{id: {node}, module: "python:json:loads"}}
edges:
  - {{from: {node}, to: happy-end}}
  - {{id: more, from: {node}, to: {node}, topic: {topic}, max_hops: 1}}
"""


def write(folder, name, **values):
    defaults = {
        "graph": name,
        "cluster": "main",
        "datasource": f"{name}-files",
        "account": "demo",
        "node": f"{name}-parse",
        "partitions": 2,
        "topic": f"{name}-topic",
    }
    (folder / f"{name}.yaml").write_text(GRAPH.format(**(defaults | values)))


def test_graphs_come_sorted_by_id(tmp_path):
    write(tmp_path, "one", graph="zebra")
    write(tmp_path, "two", graph="ant")
    (tmp_path / "README.md").write_text("not a graph")

    assert [graph.graph_id for graph in load_graphs(tmp_path)] == ["ant", "zebra"]


def test_graphs_may_share_the_happy_end_and_a_datasource(tmp_path):
    write(tmp_path, "one", datasource="files")
    write(tmp_path, "two", datasource="files")

    assert len(load_graphs(tmp_path)) == 2


def test_the_same_node_may_be_in_two_clusters(tmp_path):
    write(tmp_path, "one", node="parse")
    write(tmp_path, "two", node="parse", cluster="other")

    assert len(load_graphs(tmp_path)) == 2


@pytest.mark.parametrize(
    ("same", "field", "message"),
    [
        ({"graph": "same"}, "graph", "graph same is already defined in"),
        ({"node": "parse"}, "nodes[0].id", "node parse of cluster main is already defined in"),
        ({"topic": "shared"}, "edges[1].topic", "shared is already a topic of"),
    ],
)
def test_refuses_graphs_that_would_drain_each_others_topics(tmp_path, same, field, message):
    write(tmp_path, "one", **same)
    write(tmp_path, "two", **same)

    with pytest.raises(GraphInvalid) as caught:
        load_graphs(tmp_path)
    (problem,) = caught.value.problems
    assert problem.file.endswith("two.yaml")
    assert problem.field == field
    assert message in problem.message


@pytest.mark.parametrize(("name", "value"), [("account", "theirs"), ("partitions", 9)])
def test_graphs_that_share_a_datasource_must_agree_on_it(tmp_path, name, value):
    write(tmp_path, "one", datasource="files")
    write(tmp_path, "two", datasource="files", **{name: value})

    with pytest.raises(GraphInvalid, match="datasource files has") as caught:
        load_graphs(tmp_path)
    assert [problem.field for problem in caught.value.problems] == [f"datasources[0].{name}"]


def test_the_problems_of_all_files_are_listed(tmp_path):
    write(tmp_path, "one", partitions="none")
    write(tmp_path, "two", account="..")

    with pytest.raises(GraphInvalid) as caught:
        load_graphs(tmp_path)
    assert [problem.field for problem in caught.value.problems] == [
        "datasources[0].partitions",
        "datasources[0].account",
    ]


def test_a_missing_folder_is_refused_and_the_hint_says_what_makes_one(tmp_path):
    with pytest.raises(GraphInvalid, match=r"there is no such folder \(`pipestream up` writes one"):
        load_graphs(tmp_path / "nothing")

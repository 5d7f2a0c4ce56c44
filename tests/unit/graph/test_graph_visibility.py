"""Who may send to a node from another cluster."""

from __future__ import annotations

import pytest

from pipestream.errors import GraphInvalid
from pipestream.graph.folder import load_graphs
from pipestream.graph.load import check_graph_text, from_binary
from pipestream.graph.proto import to_binary

SENDER = """\
graph: sender
cluster: us
nodes: [{id: sort, type: connector}]
edges: [{from: sort, to: archive, cluster: eu}]
"""
RECEIVER = """\
graph: receiver
cluster: eu
nodes: [{id: archive, type: connector, %s}]
"""


def problems_between(folder, visibility):
    (folder / "receiver.yaml").write_text(RECEIVER % visibility)
    (folder / "sender.yaml").write_text(SENDER)
    with pytest.raises(GraphInvalid) as caught:
        load_graphs(folder)
    return [str(problem) for problem in caught.value.problems]


def problems_of(visibility):
    return [str(problem) for problem in check_graph_text((RECEIVER % visibility).encode(), "g.yaml").problems]


def test_an_edge_to_a_private_node_of_another_cluster_is_refused(tmp_path):
    (problem,) = problems_between(tmp_path, "visibility: private")

    assert "sender.yaml" in problem
    assert "edges[0].to: eu:archive is private, so nobody drains bridge.eu.archive" in problem
    assert "visibility: public" in problem


def test_an_edge_to_a_restricted_node_needs_its_cluster_among_those_that_may_send(tmp_path):
    (problem,) = problems_between(tmp_path, "visibility: restricted, visible_to: [asia]")

    assert "edges[0].to: eu:archive takes documents from asia, not from us" in problem


@pytest.mark.parametrize("visibility", ["visibility: public", "visibility: restricted, visible_to: [asia, us]"])
def test_an_edge_to_a_node_that_it_may_send_to_is_accepted(tmp_path, visibility):
    (tmp_path / "receiver.yaml").write_text(RECEIVER % visibility)
    (tmp_path / "sender.yaml").write_text(SENDER)

    assert [graph.graph_id for graph in load_graphs(tmp_path)] == ["receiver", "sender"]


def test_an_edge_to_a_cluster_that_is_not_known_here_is_accepted(tmp_path):
    (tmp_path / "sender.yaml").write_text(SENDER)

    assert len(load_graphs(tmp_path)) == 1


def test_an_edge_to_a_node_that_a_known_cluster_does_not_have_is_accepted(tmp_path):
    # Another installation may hold more graphs of that cluster.
    (tmp_path / "receiver.yaml").write_text(RECEIVER.replace("archive", "other") % "visibility: public")
    (tmp_path / "sender.yaml").write_text(SENDER)

    assert len(load_graphs(tmp_path)) == 2


def test_a_restricted_node_names_who_may_send():
    (problem,) = problems_of("visibility: restricted")

    assert "nodes[0].visible_to: a restricted node names the clusters that may send to it" in problem


@pytest.mark.parametrize("visibility", ["private", "public"])
def test_only_a_restricted_node_names_who_may_send(visibility):
    (problem,) = problems_of(f"visibility: {visibility}, visible_to: [us]")

    assert f"nodes[0].visible_to: has no effect on a {visibility} node" in problem


def test_those_who_may_send_are_clusters():
    (problem,) = problems_of("visibility: restricted, visible_to: [US]")

    assert "nodes[0].visible_to" in problem
    assert "cluster id 'US' cannot be part of a topic name" in problem


def test_those_who_may_send_are_on_the_wire():
    text = RECEIVER % "visibility: restricted, visible_to: [asia, us]"
    graph = check_graph_text(text.encode(), "g.yaml").require()

    assert graph.nodes[0].visible_to == ("asia", "us")
    assert from_binary(to_binary(graph)) == graph

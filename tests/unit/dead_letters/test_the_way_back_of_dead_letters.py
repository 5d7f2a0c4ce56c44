from __future__ import annotations

import pytest

from pipestream.dead_letters.destinations import Destinations, NoWayBack
from pipestream.dead_letters.letter import read_letter
from pipestream.graph.load import load_graph
from pipestream.kafka.records import InputRecord

GRAPH = """
graph: g
cluster: main
datasources:
  - {id: files, account: acme, entry: first}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on"}
  - {id: fused, module: "python:pipestream_testing.steps:pass_on"}
  - {id: named, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: first, to: second}
  - {from: first, to: fused, transport: grpc}
  - {from: second, to: named, topic: special}
"""
TOPICS = ["intake.files", "pipestream.main.second", "special", "pipestream.main.other", "bridge.main.other"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    file = tmp_path_factory.mktemp("graphs") / "g.yaml"
    file.write_text(GRAPH)
    return load_graph(file)


def letter(topic, *, origin="", node="", graph_id="g", datasource=""):
    said = {
        "__connect.errors.topic": origin,
        "__connect.errors.stage": node,
        "pipestream.dead.graph": graph_id,
        "pipestream.dead.datasource": datasource,
    }
    headers = tuple((name, text.encode()) for name, text in said.items() if text)
    return read_letter(InputRecord(topic, 0, 0, 0, b"k", b"", headers))


@pytest.mark.parametrize(
    ("topic", "origin", "node", "expected"),
    [
        pytest.param("dlq.intake.files", "intake.files", "first", "intake.files", id="of intake"),
        pytest.param("dlq.intake.files", "", "", "intake.files", id="foreign, of intake"),
        pytest.param("dlq.main.second", "pipestream.main.second", "second", "pipestream.main.second", id="of a node"),
        pytest.param("dlq.main.second", "intake.files", "second", "pipestream.main.second", id="behind a fused edge"),
        pytest.param("dlq.main.named", "special", "named", "special", id="of an edge's own topic"),
        pytest.param("dlq.main.named", "intake.files", "named", "special", id="fused, node has a named topic"),
        pytest.param("my-letters", "pipestream.main.second", "second", "pipestream.main.second", id="overridden topic"),
    ],
)
def test_a_letter_goes_back_to_a_topic_that_leads_to_where_it_failed(graph, topic, origin, node, expected):
    found = Destinations([graph], TOPICS).find(letter(topic, origin=origin, node=node))

    assert found == expected


def test_a_letter_of_intake_in_a_topic_that_its_node_names_goes_back_to_intake(graph):
    of_intake = letter("my-letters", origin="intake.files", node="first", datasource="files")

    assert Destinations([graph], TOPICS).find(of_intake) == "intake.files"


def test_a_letter_that_names_no_datasource_of_the_broker_has_no_way_back(graph):
    with pytest.raises(NoWayBack, match="does not exist"):
        Destinations([graph], TOPICS).find(letter("my-letters", node="first", datasource="../x"))


@pytest.mark.parametrize(
    ("topic", "origin", "expected"),
    [
        pytest.param("dlq.main.other", "bridge.main.other", "bridge.main.other", id="from a bridge"),
        pytest.param("dlq.main.other", "pipestream.main.other", "pipestream.main.other", id="from its node's topic"),
        pytest.param("dlq.main.other", "", "pipestream.main.other", id="a foreign record"),
        pytest.param("dlq.main.other", "pipestream.main.first", "pipestream.main.other", id="behind a fused edge"),
    ],
)
def test_where_no_graph_is_named_the_names_of_topics_tell_the_way(topic, origin, expected):
    found = Destinations([], TOPICS).find(letter(topic, origin=origin, node="other", graph_id=""))

    assert found == expected


def test_a_foreign_record_in_a_nodes_topic_finds_the_graph_of_that_node(graph):
    assert Destinations([graph], TOPICS).find(letter("dlq.main.named", graph_id="")) == "special"


def test_a_letter_of_a_fused_node_goes_back_to_that_node_and_not_to_those_before_it(graph):
    found = Destinations([graph], {*TOPICS, "pipestream.main.fused"}).find(
        letter("dlq.main.fused", origin="intake.files", node="fused", graph_id="g")
    )

    assert found == "pipestream.main.fused"


@pytest.mark.parametrize(
    ("topic", "origin", "node", "graph_id", "reason"),
    [
        pytest.param("dlq.main.old", "pipestream.main.old", "old", "g", "no node old any more", id="node is gone"),
        pytest.param("dlq.intake.gone", "intake.gone", "x", "g", "intake.gone does not exist", id="topic is gone"),
        pytest.param("anywhere", "", "", "", "nothing says at which node", id="foreign, in any topic"),
        pytest.param("dlq.main.x", "special", "x", "", "name its graph", id="foreign, no convention"),
    ],
)
def test_a_letter_without_a_way_back_is_kept_apart_with_the_reason(graph, topic, origin, node, graph_id, reason):
    with pytest.raises(NoWayBack, match=reason):
        Destinations([graph], TOPICS).find(letter(topic, origin=origin, node=node, graph_id=graph_id))


@pytest.mark.parametrize("graphs", ["none", "others"])
@pytest.mark.parametrize(
    ("topic", "origin", "datasource"),
    [
        pytest.param("dlq.intake.files", "intake.files", "files", id="of intake"),
        pytest.param("dlq.main.second", "pipestream.main.second", "", id="of a node"),
    ],
)
def test_a_letter_of_a_graph_that_is_gone_stays_open(graph, graphs, topic, origin, datasource):
    """Its record is for that graph alone: another graph that drains the topic passes it over, and it would be lost."""
    gone = letter(topic, origin=origin, node="second", graph_id="gone", datasource=datasource)

    with pytest.raises(NoWayBack, match="it failed in graph gone, and only that graph takes it back"):
        Destinations([graph] if graphs == "others" else [], TOPICS).find(gone)


def test_a_foreign_header_cannot_send_a_letter_to_any_topic_it_likes(graph):
    found = Destinations([graph], [*TOPICS, "payments"]).find(
        letter("dlq.main.second", origin="payments", node="second")
    )

    assert found == "pipestream.main.second"

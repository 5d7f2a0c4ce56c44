from __future__ import annotations

import textwrap

import pytest

from pipestream.graph.load import check_graph_text
from pipestream.graph.order import drain_order
from pipestream.topic_names import TopicKind


def steps_of(text, passes=2):
    head = "graph: g\ncluster: main\n"
    return drain_order(check_graph_text((head + textwrap.dedent(text)).encode(), "g.yaml").require(), passes)


def shown(steps):
    return [(step.topic, step.pass_number, step.after) for step in steps]


CHAIN = """
    datasources: [{id: s, account: x, entry: a}]
    nodes: [{id: c, type: connector}, {id: b, type: connector}, {id: a, type: connector}]
    edges: [{from: a, to: b}, {from: b, to: c}]
"""


def test_a_chain_is_drained_from_its_start():
    assert shown(steps_of(CHAIN)) == [
        ("intake.s", 1, ()),
        ("pipestream.main.b", 1, (0,)),
        ("pipestream.main.c", 1, (1,)),
    ]


def test_a_step_names_its_node_and_datasource():
    intake, node, _ = steps_of(CHAIN)

    assert (intake.kind, intake.node_id, intake.datasource_id) == (TopicKind.INTAKE, "a", "s")
    assert (node.kind, node.node_id, node.datasource_id) == (TopicKind.NODE, "b", "")


def test_where_ways_meet_the_drain_waits_for_all_of_them():
    steps = steps_of("""
        datasources: [{id: s, account: x, entry: a}, {id: t, account: x, entry: d}]
        nodes: [{id: a, type: connector}, {id: b, type: connector}, {id: c, type: connector}, {id: d, type: connector}]
        edges: [{from: a, to: b}, {from: a, to: c}, {from: b, to: d}, {from: c, to: d}]
    """)

    assert shown(steps) == [
        ("intake.s", 1, ()),
        ("intake.t", 1, ()),
        ("pipestream.main.b", 1, (0,)),
        ("pipestream.main.c", 1, (0,)),
        ("pipestream.main.d", 1, (2, 3)),
    ]


def test_a_fused_node_has_a_topic_for_replays_and_what_it_feeds_waits_for_both_ways_in():
    steps = steps_of("""
        datasources: [{id: s, account: x, entry: a}]
        nodes: [{id: a, type: connector}, {id: b, type: connector}, {id: c, type: connector}]
        edges: [{from: a, to: b, transport: grpc}, {from: b, to: c}]
    """)

    assert shown(steps) == [("intake.s", 1, ()), ("pipestream.main.b", 1, ()), ("pipestream.main.c", 1, (0, 1))]


def test_a_cycle_is_drained_in_passes_and_what_follows_waits_for_the_last():
    steps = steps_of("""
        datasources: [{id: s, account: x, entry: a}]
        nodes: [{id: b, type: connector}, {id: a, type: connector}, {id: c, type: connector}]
        edges: [{from: a, to: b}, {from: b, to: a, max_hops: 2}, {from: b, to: c}]
    """)

    assert shown(steps) == [
        ("intake.s", 1, ()),
        ("pipestream.main.b", 1, (0,)),
        ("pipestream.main.a", 1, (0, 1)),
        ("pipestream.main.b", 2, (1, 2)),
        ("pipestream.main.a", 2, (2, 3)),
        ("pipestream.main.c", 1, (3,)),
    ]


def test_a_node_that_feeds_itself_is_drained_in_passes():
    steps = steps_of(
        """
        datasources: [{id: s, account: x, entry: a}]
        nodes: [{id: a, type: connector}]
        edges: [{from: a, to: a, max_hops: 3}]
        """,
        passes=3,
    )

    assert shown(steps) == [
        ("intake.s", 1, ()),
        ("pipestream.main.a", 1, (0,)),
        ("pipestream.main.a", 2, (1,)),
        ("pipestream.main.a", 3, (2,)),
    ]


def test_an_end_without_a_module_is_not_drained_and_one_with_a_module_comes_last():
    text = """
        happy_end: done
        datasources: [{id: s, account: x, entry: a}]
        nodes: [{id: done, type: sink%s}, {id: a, type: connector}, {id: b, type: connector}]
        edges: [{from: a, to: b}]
    """

    assert [step.topic for step in steps_of(text % "")] == ["intake.s", "pipestream.main.b"]
    assert shown(steps_of(text % ", module: 'python:json:loads'"))[-1] == ("pipestream.main.done", 1, (0, 1))


def test_an_override_is_drained_next_to_the_nodes_own_topic():
    steps = steps_of("""
        datasources: [{id: s, account: x, entry: a}]
        nodes: [{id: a, type: connector}, {id: b, type: connector}]
        edges: [{from: a, to: b}, {id: fast, from: a, to: b, topic: b-fast}]
    """)

    assert [(step.topic, step.node_id) for step in steps] == [
        ("intake.s", "a"),
        ("pipestream.main.b", "b"),
        ("b-fast", "b"),
    ]


def test_a_bridged_node_is_drained_from_its_bridge_and_the_bridge_of_others_is_not():
    (step,) = steps_of("""
        nodes: [{id: a, type: connector, visibility: public}]
        edges: [{from: a, to: far, cluster: other}]
    """)

    assert (step.topic, step.kind, step.node_id) == ("bridge.main.a", TopicKind.BRIDGE, "a")


def test_a_chain_of_thousands_is_fine():
    nodes = ", ".join(f"{{id: n{number}, type: connector}}" for number in range(3_000))
    edges = ", ".join(f"{{from: n{number}, to: n{number + 1}}}" for number in range(2_999))
    steps = steps_of(f"datasources: [{{id: s, account: x, entry: n0}}]\nnodes: [{nodes}]\nedges: [{edges}]\n")

    assert [step.after for step in steps] == [(), *((number,) for number in range(2_999))]


def test_refuses_to_pass_through_a_cycle_not_even_once():
    with pytest.raises(ValueError, match="cycle_passes must be positive, not 0"):
        steps_of(CHAIN, passes=0)

from __future__ import annotations

import textwrap

import pytest

from pipestream.deployment.topic_changes import plan_topics
from pipestream.graph.flow import topic_targets
from pipestream.graph.load import check_graph_text
from pipestream.settings import Settings
from pipestream.topics.required import (
    DEAD_LETTER_BYTES,
    DEAD_LETTER_HEADERS_BYTES,
    KEEP_FOREVER_MS,
    Purpose,
    TopicSpec,
    leased_topics,
    required_topics,
)

SETTINGS = Settings(kafka_partitions=3)
MB = 1_000_000


def graph_of(text):
    head = "graph: g\ncluster: main\n"
    return check_graph_text((head + textwrap.dedent(text)).encode(), "g.yaml").require()


def names_of(text):
    return [spec.name for spec in required_topics(graph_of(text), SETTINGS)]


TWO = """
    datasources: [{id: s, account: x, entry: a}]
    nodes: [{id: a, type: connector}, {id: b, type: connector}]
    edges: [{from: a, to: b}]
"""


def test_a_graph_needs_intake_nodes_ends_and_dead_letters():
    assert names_of(TWO) == [
        "dlq.intake.s",
        "dlq.main.a",
        "dlq.main.b",
        "intake.s",
        "pipestream.main.b",
        "pipestream.main.happy-end",
    ]


def test_a_node_that_is_only_reached_by_grpc_has_a_topic_for_its_replays():
    assert "pipestream.main.b" in names_of(TWO.replace("to: b", "to: b, transport: grpc"))


def test_an_end_receives_by_kafka_even_if_its_edges_are_fused():
    names = names_of("""
        error_end: bad
        nodes: [{id: a, type: connector}, {id: bad, type: sink}, {id: left, type: sink}]
        edges: [{from: a, to: happy-end, transport: grpc}, {from: a, to: left, transport: grpc}]
    """)

    assert names == ["dlq.main.a", "pipestream.main.bad", "pipestream.main.happy-end", "pipestream.main.left"]


def test_an_override_takes_the_place_of_the_nodes_topic():
    names = names_of(TWO.replace("to: b", "to: b, topic: fast-lane"))

    assert "fast-lane" in names
    assert "pipestream.main.b" not in names


def test_dead_letters_may_have_a_topic_of_their_own():
    names = names_of(TWO.replace("id: b,", "id: b, dead_letters: {topic: graveyard},"))

    assert "graveyard" in names
    assert "dlq.main.b" not in names


def test_bridges_are_made_on_both_sides():
    sender = names_of("nodes: [{id: a, type: connector}]\nedges: [{from: a, to: far, cluster: other}]\n")
    receiver = names_of("nodes: [{id: a, type: connector, visibility: restricted, visible_to: [other]}]\n")

    assert "bridge.other.far" in sender
    assert "bridge.main.a" in receiver


def test_partitions_and_retention_are_those_of_the_node_and_the_datasource():
    specs = {
        spec.name: spec
        for spec in required_topics(
            graph_of("""
                datasources: [{id: s, account: x, entry: a, partitions: 7, retention_hours: 1.5}]
                nodes: [{id: a, type: connector}, {id: b, type: connector, partitions: 9}, {id: c, type: connector}]
                edges: [{from: a, to: b, topic: b-topic}, {from: b, to: c}]
            """),
            SETTINGS,
        )
    }

    assert specs["intake.s"] == TopicSpec("intake.s", 7, 5_400_000, Purpose.INTAKE, partitions_said=True)
    assert specs["b-topic"] == TopicSpec("b-topic", 9, None, Purpose.OVERRIDE, partitions_said=True)
    assert specs["pipestream.main.c"] == TopicSpec("pipestream.main.c", 3, None, Purpose.NODE)
    assert specs["dlq.main.b"] == TopicSpec(
        "dlq.main.b", 1, KEEP_FOREVER_MS, Purpose.DEAD_LETTERS, max_message_bytes=DEAD_LETTER_BYTES
    )
    assert specs["pipestream.main.happy-end"].purpose is Purpose.END


def test_only_drained_topics_are_leased_and_each_leads_to_a_node():
    graph = graph_of(TWO)

    assert topic_targets(graph) == {"intake.s": "a", "pipestream.main.b": "b"}
    assert leased_topics(graph) == ["intake.s", "pipestream.main.b"]


def test_a_plan_creates_what_is_missing_and_keeps_what_is_there():
    changes = plan_topics(graph_of(TWO), SETTINGS, existing={"intake.s": 1, "foreign": 4})

    assert [spec.name for spec in changes.keep] == ["intake.s"]
    assert len(changes.create) == 5
    assert (changes.grow, changes.retire, changes.warnings) == ({}, (), ())


@pytest.mark.parametrize(("there", "grow", "warned"), [(4, {"intake.s": 5}, False), (5, {}, False), (6, {}, True)])
def test_a_plan_grows_topics_but_never_shrinks_them(there, grow, warned):
    graph = graph_of(TWO.replace("entry: a", "entry: a, partitions: 5"))
    changes = plan_topics(graph, SETTINGS, existing={"intake.s": there})

    assert changes.grow == grow
    assert bool(changes.warnings) == warned


def test_a_plan_changes_retention_only_where_the_graph_says_another():
    graph = graph_of(TWO.replace("entry: a", "entry: a, retention_hours: 1"))
    existing = {"intake.s": 3, "pipestream.main.b": 3}

    def planned(retention_ms):
        return plan_topics(graph, SETTINGS, existing=existing, retention_ms=retention_ms).retention_ms

    assert planned({"intake.s": 3_600_000, "pipestream.main.b": 5}) == {}
    assert planned({"intake.s": 1, "pipestream.main.b": 5}) == {"intake.s": 3_600_000}


@pytest.mark.parametrize(
    ("dead_letters", "intake", "planned"),
    [
        pytest.param(DEAD_LETTER_BYTES, MB, {}, id="room for all"),
        pytest.param(MB, MB, {"dlq.intake.s": DEAD_LETTER_BYTES}, id="made before there was a floor"),
        pytest.param(20 * MB, 10 * MB, {}, id="raised by hand"),
        pytest.param(
            DEAD_LETTER_BYTES, 10 * MB, {"dlq.intake.s": 10 * MB + DEAD_LETTER_HEADERS_BYTES}, id="a wider intake"
        ),
    ],
)
def test_a_plan_gives_dead_letters_room_for_the_largest_record_and_its_reasons(dead_letters, intake, planned):
    limits = {"intake.s": intake, "dlq.intake.s": dead_letters}

    changes = plan_topics(
        graph_of(TWO), SETTINGS, existing={"intake.s": 3, "dlq.intake.s": 1}, max_message_bytes=limits
    )

    assert changes.max_message_bytes == planned


def test_a_plan_makes_dead_letters_as_wide_as_the_topics_that_are_there_need():
    limits = {"intake.s": 10 * MB}

    changes = plan_topics(graph_of(TWO), SETTINGS, existing={"intake.s": 3}, max_message_bytes=limits)

    made = {spec.name: spec.max_message_bytes for spec in changes.create}
    assert made["dlq.main.a"] == made["dlq.intake.s"] == 10 * MB + DEAD_LETTER_HEADERS_BYTES
    assert made["pipestream.main.b"] is None


def test_a_plan_retires_what_the_last_version_had_and_nobody_needs():
    old = graph_of("""
        datasources: [{id: s, account: x, entry: a}, {id: shared, account: x, entry: a}]
        nodes: [{id: a, type: connector}, {id: gone, type: connector}]
        edges: [{from: a, to: gone}, {from: a, to: far, cluster: other}]
    """)
    new = graph_of("datasources: [{id: s, account: x, entry: a}]\nnodes: [{id: a, type: connector}]\n")
    other = graph_of("datasources: [{id: shared, account: x, entry: z}]\nnodes: [{id: z, type: connector}]\n")
    existing = {spec.name: 1 for spec in required_topics(old, SETTINGS)} | {"left": 1, "foreign": 1}
    changes = plan_topics(
        new, SETTINGS, existing=existing, previous=old, leftovers=["left", "long-gone"], others=[other]
    )

    assert changes.retire == ("dlq.main.gone", "left", "pipestream.main.gone")

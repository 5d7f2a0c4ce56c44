from __future__ import annotations

import pytest

from pipestream.api.modes import change_topics
from pipestream.errors import SettingsInvalid
from pipestream.graph.load import check_graph_text
from pipestream.leases import DesiredState, TopicMode
from pipestream.settings import Settings
from pipestream.views.leases import NO_LEASES, pipeline_state

GRAPH = """
graph: g
cluster: c
datasources: [{id: a, account: acme, entry: one, paused: true}]
nodes: [{id: one, type: connector}, {id: two, type: connector}]
edges: [{from: one, to: two}]
"""
ONE, TWO = "intake.a", "pipestream.c.two"


@pytest.fixture
def graph():
    return check_graph_text(GRAPH.encode(), "g").require()


def test_what_all_topics_share_is_the_state_of_the_pipeline(graph):
    state = pipeline_state(graph, {ONE: DesiredState(replicas=3), TWO: DesiredState(replicas=3)}, "sql")

    assert (state.desired, state.replicas, state.mode) == ("started", 3, "batch")
    assert [(each.topic, each.node) for each in state.topics] == [(ONE, "one"), (TWO, "two")]
    assert (state.replicas_apply, state.notice) == (True, "")
    assert [(each.id, each.paused) for each in state.datasources] == [("a", True)]


def test_topics_that_differ_are_told(graph):
    desired = {ONE: DesiredState(started=False, replicas=3), TWO: DesiredState(mode=TopicMode.STREAMING)}

    state = pipeline_state(graph, desired, "sql")

    assert (state.desired, state.replicas, state.mode) == ("mixed", None, "mixed")


def test_without_leases_replicas_do_not_apply_and_nothing_can_be_changed(graph):
    state = pipeline_state(graph, {ONE: DesiredState(), TWO: DesiredState()}, "none")

    assert (state.replicas_apply, state.notice) == (False, NO_LEASES)
    with pytest.raises(SettingsInvalid):
        change_topics([ONE], replicas=2, settings=Settings(leases="none"))

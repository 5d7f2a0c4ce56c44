"""What holds for every valid graph, tried on random ones."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise
from random import Random
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.graph.diff import diff_graphs
from pipestream.graph.flow import destination_of, topic_targets
from pipestream.graph.format import json_schema
from pipestream.graph.load import check_graph, check_graph_text, from_binary, from_json, from_proto
from pipestream.graph.model import Transport
from pipestream.graph.order import drain_order
from pipestream.graph.proto import from_kept, graph_hash, to_binary, to_json, to_proto
from pipestream.graph.show import to_mermaid, to_svg
from pipestream.graph.write import to_yaml
from pipestream.settings import Settings
from pipestream.topic_names import TopicKind, node_topic
from pipestream.topics.required import required_topics
from pipestream_testing.graphs import CLUSTER, GraphMaker

quick = settings(max_examples=40, deadline=None)

words = st.text(st.characters(codec="utf-8"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def graphs():
    """Graphs that obey every rule. Hypothesis chooses the words and values, a seed the structure: much faster."""
    return st.builds(
        GraphMaker.make,
        st.builds(
            GraphMaker,
            st.integers(0, 2**32).map(Random),
            st.lists(words.filter(bool), min_size=1, max_size=5),
            st.lists(st.dictionaries(words, json_values, max_size=3), min_size=1, max_size=3),
        ),
    )


@quick
@given(graphs())
def test_the_graphs_made_here_are_valid(graph):
    assert check_graph(graph).problems == ()


@quick
@given(graphs())
def test_import_undoes_export(graph):
    assert from_proto(to_proto(graph)) == graph
    assert from_binary(to_binary(graph)) == graph
    assert from_kept(to_binary(graph), source="kept") == graph
    assert from_json(to_json(graph)) == graph


@quick
@given(graphs())
def test_reading_undoes_writing(graph):
    assert check_graph_text(to_yaml(graph).encode(), "graph.yaml").require() == graph


@quick
@given(graphs())
def test_the_hash_is_that_of_the_content(graph):
    again = check_graph_text(to_yaml(graph).encode(), "graph.yaml").require()

    assert graph_hash(again) == graph_hash(graph)
    assert graph_hash(replace(graph, max_hops=graph.max_hops % 1_000 + 1_001)) != graph_hash(graph)


@quick
@given(graphs())
def test_the_published_schema_accepts_what_the_reader_accepts(graph):
    jsonschema.Draft202012Validator(json_schema()).validate(yaml.safe_load(to_yaml(graph)))


@quick
@given(graphs(), graphs())
def test_a_difference_is_empty_exactly_if_the_graphs_are_equal_but_for_order(old, new):
    def unordered(graph):
        return to_yaml(replace(graph, nodes=sorted_by(graph.nodes, "node_id"), edges=sorted_by(graph.edges, "edge_id")))

    assert diff_graphs(old, old) == []
    assert (diff_graphs(old, new) == []) == (unordered(old) == unordered(new))


def sorted_by(parts, name):
    return tuple(sorted(parts, key=lambda part: getattr(part, name)))


@quick
@given(graphs())
def test_pictures_are_well_formed(graph):
    ElementTree.fromstring(to_svg(graph))
    assert to_mermaid(graph).startswith("flowchart LR\n")


@quick
@given(graphs())
def test_every_topic_that_a_drain_reads_or_writes_is_required(graph):
    required = {spec.name for spec in required_topics(graph, Settings())}

    assert required >= {step.topic for step in drain_order(graph, 2)}
    assert required >= {destination_of(edge, graph).topic for edge in graph.edges} - {""}


def written_by(graph, node_id):
    """Follow a document from a node through fused edges, and return the topics of this cluster it can go to."""
    topics, seen, waiting = set(), {node_id}, deque([node_id])
    while waiting:
        node = graph.node_by_id[waiting.popleft()]
        if not node.is_end:
            topics |= {node_topic(CLUSTER, end) for end in (graph.happy_end, graph.error_end) if end}
        for edge in graph.edges:
            if edge.from_node_id == node.node_id and not edge.is_cross_cluster:
                if edge.transport is Transport.KAFKA:
                    topics.add(edge.kafka_topic or node_topic(CLUSTER, edge.to_node_id))
                elif edge.to_node_id not in seen:
                    seen.add(edge.to_node_id)
                    waiting.append(edge.to_node_id)
    return topics


@quick
@given(graphs(), st.integers(1, 3))
def test_a_topic_is_drained_after_all_that_feed_it(graph, passes):
    steps = drain_order(graph, passes)
    targets = topic_targets(graph)
    feeds = {topic: written_by(graph, node_id) & targets.keys() for topic, node_id in targets.items()}
    reach = {topic: closure(topic, feeds) for topic in targets}
    before = []
    for index, step in enumerate(steps):
        assert all(earlier < index for earlier in step.after)
        before.append(set(step.after).union(*(before[earlier] for earlier in step.after)))

    assert {step.topic for step in steps} == targets.keys()
    for topic in targets:
        mine = [index for index, step in enumerate(steps) if step.topic == topic]
        assert [steps[index].pass_number for index in mine] == list(
            range(1, (passes if topic in reach[topic] else 1) + 1)
        )
        for target in feeds[topic]:
            last_of_target = max(index for index, step in enumerate(steps) if step.topic == target)
            if topic not in reach[target]:
                assert mine[-1] in before[last_of_target]
                first_of_target = min(index for index, step in enumerate(steps) if step.topic == target)
                assert mine[-1] in before[first_of_target]
        assert all(earlier in before[later] for earlier, later in pairwise(mine))


def closure(topic, feeds):
    """Return the topics that a document of this one can come to, itself only if it goes round."""
    reached, waiting = set(), [topic]
    while waiting:
        for target in feeds[waiting.pop()]:
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


@quick
@given(graphs())
def test_intake_comes_first_and_the_order_is_always_the_same(graph):
    steps = drain_order(graph, 2)
    kinds = [step.kind for step in steps]

    assert kinds[: len(graph.datasources)] == [TopicKind.INTAKE] * len(graph.datasources)
    assert TopicKind.INTAKE not in kinds[len(graph.datasources) :]
    assert steps == drain_order(from_binary(to_binary(graph)), 2)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(graphs())
def test_many_graphs_survive_every_way_out_and_back(graph):
    assert from_binary(to_binary(graph)) == graph
    assert from_json(to_json(graph)) == graph
    assert check_graph_text(to_yaml(graph).encode(), "graph.yaml").require() == graph

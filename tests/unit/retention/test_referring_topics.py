"""Which topics are read before a document is deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.errors import BrokerRefused, TopicMissing
from pipestream.graph.model import Datasource, DeadLetterPolicy, Graph, Node
from pipestream.kafka.broker import TopicIdentity
from pipestream.objects.store import open_store
from pipestream.retention.references import find_referring_topics
from pipestream.settings import Settings
from pipestream.topics.named import read_named_topics, record_named_topics

GRAPH = Graph("g", "main", (Node("parse", "main"),), datasources=(Datasource("files", "acme", "parse"),))


def with_letters_in(topic: str) -> Graph:
    node = replace(GRAPH.nodes[0], dead_letters=DeadLetterPolicy(topic_override=topic))
    return replace(GRAPH, nodes=(node,))


class Topics:
    """A broker that lists some of its topics, and hides those that the user has no right to."""

    def __init__(self, *listed: str, hidden: tuple[str, ...] = (), unlisted: tuple[str, ...] = ()) -> None:
        self.listed = listed
        self.hidden = hidden
        self.unlisted = unlisted

    def existing(self) -> dict[str, int]:
        return dict.fromkeys(self.listed, 1)

    def identify(self, topic: str) -> TopicIdentity:
        if topic in self.hidden:
            raise BrokerRefused(f"topic {topic}: refused")
        if topic not in (*self.listed, *self.unlisted):
            raise TopicMissing(topic)
        return TopicIdentity("id", (0,))


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path.as_uri(), Settings()) as opened:
        yield opened


def test_topics_of_every_version_and_of_unknown_graphs_are_read(store):
    old = replace(GRAPH, nodes=(replace(GRAPH.nodes[0], node_id="old"),))
    existing = ["intake.files", "pipestream.main.old", "dlq.main.parse", "bridge.far.away", "dlq.who.knows", "orders"]

    found = find_referring_topics([[GRAPH, old]], Topics(*existing), store, Settings())

    assert found == sorted(set(existing) - {"orders"})


def test_a_topic_that_only_a_graph_names_that_was_never_applied_is_read_once_a_drain_has_recorded_it(store):
    broker = Topics("intake.files", "letters-of-parse", "orders")
    assert find_referring_topics([[GRAPH]], broker, store, Settings()) == ["intake.files"]

    for _ in range(2):
        record_named_topics(store, with_letters_in("letters-of-parse"), Settings())

    assert find_referring_topics([[GRAPH]], broker, store, Settings()) == ["intake.files", "letters-of-parse"]


def test_of_a_graph_that_names_no_topics_nothing_is_recorded(store):
    record_named_topics(store, GRAPH, Settings())

    assert list(store.list()) == []


def test_a_topic_with_the_longest_name_that_kafka_takes_can_be_recorded(store):
    record_named_topics(store, with_letters_in("x" * 249), Settings())

    assert read_named_topics(store) == {"x" * 249}


def test_a_known_topic_that_may_not_be_looked_at_is_not_taken_for_one_that_is_not_there(store):
    broker = Topics("intake.files", hidden=("letters",))

    with pytest.raises(BrokerRefused, match="letters"):
        find_referring_topics([[with_letters_in("letters")]], broker, store, Settings())


def test_a_known_topic_that_is_there_though_the_list_lacks_it_is_read(store):
    broker = Topics("intake.files", unlisted=("letters",))

    assert "letters" in find_referring_topics([[with_letters_in("letters")]], broker, store, Settings())

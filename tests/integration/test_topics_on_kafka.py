"""Topics on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pipestream.errors import BrokerRefused, BrokerUnavailable, TopicMissing
from pipestream.kafka.records import Watermarks
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec

pytestmark = pytest.mark.stack


@pytest.fixture
def admin(settings):
    return TopicAdmin(settings)


def spec(name, partitions=2, retention_ms=None):
    return TopicSpec(name, partitions, retention_ms, Purpose.NODE)


def test_a_created_topic_is_there_as_asked_for(admin, unique):
    created = admin.create([spec(f"{unique}.a", 3, 3_600_000), spec(f"{unique}.b", 1)])

    assert created == [f"{unique}.a", f"{unique}.b"]
    assert admin.existing()[f"{unique}.a"] == len(admin.identify(f"{unique}.a").partitions) == 3
    assert admin.configs([f"{unique}.a"])[f"{unique}.a"].retention_ms == 3_600_000


def test_creating_again_changes_nothing(admin, unique):
    admin.create([spec(unique, 3)])

    assert admin.create([spec(unique, 5)]) == []
    assert admin.existing()[unique] == 3


def test_a_topic_made_again_has_another_id(admin, unique):
    admin.create([spec(unique)])
    first = admin.identify(unique)
    admin.delete([unique])
    admin.create([spec(unique)])

    again = admin.identify(unique)
    assert again.partitions == first.partitions
    assert again.topic_id != first.topic_id


def test_partitions_grow_and_retention_changes(admin, unique):
    admin.create([spec(unique, 1)])
    admin.grow({unique: 4})
    admin.set_retention_ms({unique: 60_000})

    assert admin.identify(unique).partitions == (0, 1, 2, 3)
    assert admin.configs([unique])[unique].retention_ms == 60_000


class OvertakenAdmin(TopicAdmin):
    """Before it looks whether its topic has grown, somebody else has given it more partitions."""

    def __init__(self, settings, further):
        super().__init__(settings)
        self.further = further

    def existing(self):
        further, self.further = self.further, {}
        TopicAdmin(self._settings).grow(further)
        return super().existing()


def test_a_topic_that_somebody_else_grows_further_has_grown(settings, admin, unique):
    admin.create([spec(unique, 1)])

    OvertakenAdmin(settings.model_copy(update={"kafka_timeout_s": 20}), {unique: 6}).grow({unique: 4})

    assert len(admin.identify(unique).partitions) == 6


def test_watermarks_say_what_a_topic_holds(admin, settings, unique):
    admin.create([spec(unique, 2)])
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for _ in range(3):
        producer.produce(unique, b"x", partition=1)
    assert producer.flush(120) == 0

    assert admin.watermarks(unique, [0, 1]) == {0: Watermarks(0, 0), 1: Watermarks(0, 3)}
    assert admin.written_ends(unique, [0, 1]) == {0: 0, 1: 3}


def test_deleting_what_is_not_there_is_not_an_error(admin, unique):
    admin.create([spec(unique)])
    admin.delete([unique, f"{unique}-never-was"])

    assert unique not in admin.existing()


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin, topic: admin.identify(topic),
        lambda admin, topic: admin.configs([topic]),
        lambda admin, topic: admin.set_retention_ms({topic: 60_000}),
        lambda admin, topic: admin.grow({topic: 2}),
    ],
    ids=["identity", "configuration", "retention", "partitions"],
)
def test_asking_about_a_missing_topic_names_it(admin, unique, ask):
    with pytest.raises(TopicMissing, match=f"topic {unique} does not exist"):
        ask(admin, unique)


def test_a_refused_topic_says_why(admin, settings, unique):
    greedy = TopicAdmin(settings.model_copy(update={"kafka_replication": 9}))

    with pytest.raises(BrokerRefused, match=f"{unique}: refused: .*(?i:replication)"):
        greedy.create([spec(unique)])
    assert unique not in admin.existing()


def test_a_broker_that_does_not_answer_is_transient_and_named(settings):
    silent = TopicAdmin(settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1", "kafka_timeout_s": 1.0}))

    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127\.0\.0\.1:1"):
        silent.existing()

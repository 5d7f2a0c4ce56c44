"""Where a topic without a head starts, asked of a real broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pipestream.errors import OffsetsExpired, RequestInvalid, TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.offsets.start import StartUnknown, start_offsets
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.retention import delete_before
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_MS = 1_769_860_800_000
HOUR_MS = 3_600_000


@pytest.fixture
def topic(settings, unique):
    """Three partitions: records at 10, 11 and 12 o'clock; one at 11; none."""
    TopicAdmin(settings).create([TopicSpec(unique, 3, -1, Purpose.NODE)])
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for partition, hours in {0: (-2, -1, 0), 1: (-1,)}.items():
        for hour in hours:
            producer.produce(unique, b"x", partition=partition, timestamp=NOON_MS + hour * HOUR_MS)
    assert producer.flush(120) == 0
    return unique


@pytest.fixture
def ask(settings, topic):
    def ask(policy, now=NOON):
        broker = Broker(settings)
        marks = broker.watermarks(topic, [0, 1, 2])
        return start_offsets(broker, topic, marks, policy, clock=lambda: now)

    return ask


def commit(settings, group, topic, offsets):
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in offsets.items()], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("earliest", {0: 0, 1: 0, 2: 0}),
        ("latest", {0: 3, 1: 1, 2: 0}),
        ("PT1H", {0: 1, 1: 0, 2: 0}),
        ("PT59M", {0: 2, 1: 1, 2: 0}),
        ("P100D", {0: 0, 1: 0, 2: 0}),
        ("P36500D", {0: 0, 1: 0, 2: 0}),
        ("2026-01-31T11:00:00Z", {0: 1, 1: 0, 2: 0}),
        ("2026-01-31T12:00:00.000001+01:00", {0: 2, 1: 1, 2: 0}),
        ("2026-01-31T12:00:00.001Z", {0: 3, 1: 1, 2: 0}),
    ],
)
def test_a_policy_finds_its_offsets(ask, policy, expected):
    assert ask(policy) == expected


def test_a_duration_counts_back_from_the_clock(ask):
    assert ask("PT1H", now=NOON + timedelta(hours=1)) == {0: 2, 1: 1, 2: 0}


def test_a_groups_committed_offsets_are_taken_over(ask, settings, topic, unique):
    commit(settings, f"{unique}-loaders", topic, {0: 2, 1: 0})

    assert ask(f"committed:{unique}-loaders") == {0: 2, 1: 0, 2: 0}


def test_an_unknown_group_is_an_error_that_says_what_to_do(ask, unique):
    with pytest.raises(StartUnknown, match="check the group's name, or start at earliest"):
        ask(f"committed:{unique}-nobody")


def test_a_group_that_fell_behind_retention_is_an_error(ask, settings, topic, unique):
    commit(settings, f"{unique}-slow", topic, {0: 0, 1: 0})
    delete_before(settings, topic, 0, 2)

    with pytest.raises(OffsetsExpired, match=r"\[0\]: offsets 0\.\.1 were deleted"):
        ask(f"committed:{unique}-slow")
    assert ask("earliest") == ask("PT3H") == {0: 2, 1: 0, 2: 0}


def test_records_of_an_open_transaction_are_before_nobodys_start(ask, settings, topic, unique):
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap, "transactional.id": unique})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=2, timestamp=NOON_MS)
    assert producer.flush(120) == 0
    outside = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    outside.produce(topic, b"behind it", partition=2, timestamp=NOON_MS + 1)
    assert outside.flush(120) == 0

    assert ask("latest")[2] == 0
    assert ask("2026-01-31T12:00:00.001Z")[2] == 0
    producer.commit_transaction(120)
    # The commit returns before its marker is in the partition.
    wait_until(lambda: ask("latest")[2] == 3)


def test_a_policy_that_cannot_be_read_is_an_error(ask):
    with pytest.raises(RequestInvalid, match="start_at: 'yesterday' is not a place to start"):
        ask("yesterday")


def test_an_offset_that_kafka_does_not_take_is_reported_though_it_took_others(settings, topic, unique):
    broker = Broker(settings)

    with pytest.raises(TopicMissing):
        broker.commit(f"{unique}-group", topic, {0: 1, 99: 1})

    assert broker.committed(f"{unique}-group", topic, [0])[0].offset == 1

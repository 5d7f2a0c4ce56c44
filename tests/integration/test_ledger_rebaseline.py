from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from pipestream.drain.audit import audit_topic
from pipestream.drain.rebaseline import rebaseline
from pipestream.errors import OffsetsExpired, TerminalError, TopicReplaced
from pipestream.leases import open_lease_store

pytestmark = pytest.mark.stack


@pytest.fixture
def move(pipeline, unique):
    leases = open_lease_store(pipeline.settings)

    def to(place):
        return rebaseline(pipeline.settings, pipeline.graph, f"intake.{unique}", place, by="ops", leases=leases)

    yield to
    leases.close()


def test_a_topic_made_again_is_refused_until_the_ledger_is_rebaselined(pipeline, unique, move):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["old1", "old2"])
    pipeline.drain(topic, "run-1")
    admin = AdminClient({"bootstrap.servers": pipeline.settings.kafka_bootstrap})
    admin.delete_topics([topic])[topic].result(30)
    pipeline.create_topics()
    pipeline.send(topic, [f"new{n}" for n in range(5)])

    with pytest.raises(TopicReplaced, match="deleted and made again"):
        pipeline.drain(topic, "run-2")
    moves = move("earliest")
    report = pipeline.drain(topic, "run-3")

    assert {(m.range.partition, m.range.start, m.range.end) for m in moves} == {(0, 2, 0), (1, 0, 0)}
    assert report.records == 5
    assert audit_topic(pipeline.settings, pipeline.graph, topic).faults == ()


def test_records_that_retention_deleted_are_given_up_only_by_hand(pipeline, unique, move):
    from confluent_kafka import TopicPartition

    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "b"])
    pipeline.drain(topic, "run-1")
    pipeline.send(topic, ["c", "d", "e"])
    admin = AdminClient({"bootstrap.servers": pipeline.settings.kafka_bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        done.result(30)

    with pytest.raises(OffsetsExpired, match=r"offsets 2\.\.3 were deleted"):
        pipeline.drain(topic, "run-2")
    move("earliest")
    report = pipeline.drain(topic, "run-3")

    assert report.records == 1
    assert audit_topic(pipeline.settings, pipeline.graph, topic).faults == ()


def test_a_head_moved_back_drains_the_records_again(pipeline, unique, move):
    topic = f"intake.{unique}"
    pipeline.send(topic, ["a", "b", "c"])
    pipeline.drain(topic, "run-1")

    move({0: 1})
    report = pipeline.drain(topic, "run-2")

    assert report.records == 2
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == {"a": 1, "b": 2, "c": 2}


def test_a_place_outside_the_topic_is_refused(pipeline, unique, move):
    pipeline.send(f"intake.{unique}", ["a"])

    with pytest.raises(TerminalError, match=r"cannot start at 9: it holds 0\.\.1"):
        move({0: 9})

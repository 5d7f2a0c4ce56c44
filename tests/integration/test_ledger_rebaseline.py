from __future__ import annotations

from contextlib import closing, suppress

import pytest
from confluent_kafka import KafkaException, TopicPartition

from pipestream.drain.live_lane import LiveLane
from pipestream.drain.range_task import RangeFailed, ordered_transactional_id, transactional_id
from pipestream.drain.rebaseline import HeadsMoved, preview_rebaseline, rebaseline
from pipestream.errors import LeaseUnavailable, LedgerBusy, OffsetsExpired, TerminalError, TopicReplaced
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import range_consumer, transactional_producer
from pipestream.leases import DesiredState
from pipestream.leases.names import lease_name
from pipestream.ledger import EntryKind, Ledger
from pipestream.topics.admin import TopicAdmin
from pipestream.views.audit import audit_topic
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack


@pytest.fixture
def move(pipeline, topic, leases):
    def to(place):
        return rebaseline(pipeline.settings, pipeline.graph, topic, place, by="ops", leases=leases)

    return to


@pytest.fixture
def make_again(pipeline, topic):
    """Delete the topic and make it again, empty."""

    def make():
        TopicAdmin(pipeline.settings).delete([topic])
        pipeline.create_topics()

    return make


@pytest.fixture
def grow(pipeline, topic):
    """Give the topic more partitions."""

    def to(partitions):
        TopicAdmin(pipeline.settings).grow({topic: partitions})

    return to


def moved(entries):
    return {(entry.range.partition, entry.range.start, entry.range.end) for entry in entries}


def test_a_topic_made_again_is_refused_until_the_ledger_is_rebaselined(pipeline, topic, move, make_again):
    pipeline.send(topic, ["old1", "old2"])
    pipeline.drain(topic, "run-1")
    make_again()
    pipeline.send(topic, [f"new{n}" for n in range(5)])

    with pytest.raises(TopicReplaced, match="deleted and created again"):
        pipeline.drain(topic, "run-2")
    moves = move("earliest")
    report = pipeline.drain(topic, "run-3")

    assert moved(moves) == {(0, 2, 0), (1, 0, 0)}
    assert report.records == 5
    assert audit_topic(Broker(pipeline.settings), pipeline.ledger, pipeline.graph, topic).faults == ()


def test_a_topic_made_again_needs_a_new_head_for_every_partition(pipeline, topic, move, make_again):
    pipeline.send(topic, ["a", "b"], partition=0)
    pipeline.send(topic, ["c"], partition=1)
    pipeline.drain(topic, "run-1")
    make_again()

    with pytest.raises(TerminalError, match="every partition needs a new head, and 1 would keep that of the old topic"):
        move({0: 0})

    assert pipeline.ledger.heads(pipeline.graph.graph_id, topic, [0, 1]) == {0: 2, 1: 1}
    with pytest.raises(TopicReplaced):
        pipeline.drain(topic, "run-2")
    assert moved(move({0: 0, 1: 0})) == {(0, 2, 0), (1, 1, 0)}


def test_heads_of_partitions_that_a_topic_made_again_lacks_do_not_outlive_the_old_one(
    pipeline, topic, move, make_again, grow
):
    grow(3)
    pipeline.send(topic, ["a", "b"], partition=2)
    pipeline.drain(topic, "run-1")
    make_again()

    moves = move("earliest")
    grow(3)
    pipeline.send(topic, ["c", "d", "e"], partition=2)
    report = pipeline.drain(topic, "run-2")

    assert (2, 2, 0) in moved(moves)
    assert report.records == 3


def test_records_that_retention_deleted_are_given_up_only_by_hand(pipeline, topic, move):
    pipeline.send(topic, ["a", "b"])
    pipeline.drain(topic, "run-1")
    pipeline.send(topic, ["c", "d", "e"])
    delete_before(pipeline.settings, topic, 0, 4)

    with pytest.raises(OffsetsExpired, match=r"offsets 2\.\.3 were deleted"):
        pipeline.drain(topic, "run-2")
    move("earliest")
    report = pipeline.drain(topic, "run-3")

    assert report.records == 1
    assert audit_topic(Broker(pipeline.settings), pipeline.ledger, pipeline.graph, topic).faults == ()


def test_a_head_moved_back_drains_the_records_again(pipeline, unique, topic, move):
    pipeline.send(topic, ["a", "b", "c"])
    pipeline.drain(topic, "run-1")

    move({0: 1})
    report = pipeline.drain(topic, "run-2")

    assert report.records == 2
    assert pipeline.doc_ids(f"pipestream.{unique}.second") == {"a": 1, "b": 2, "c": 2}


def test_a_place_outside_the_topic_is_refused(pipeline, topic, move):
    pipeline.send(topic, ["a"])

    with pytest.raises(TerminalError, match=r"cannot start at 9: it holds 0\.\.1"):
        move({0: 9})


@pytest.mark.parametrize(
    ("replicas", "held"),
    [
        pytest.param(2, 0, id="the first slot"),
        pytest.param(2, 1, id="another slot"),
        pytest.param(1, 3, id="a slot that scaling down has left behind"),
    ],
)
def test_while_a_run_holds_any_slot_no_head_moves(pipeline, topic, move, leases, replicas, held):
    pipeline.send(topic, ["a", "b"])
    pipeline.drain(topic, "run-1")
    leases.set_desired(topic, DesiredState(replicas=replicas))
    lease = leases.acquire(lease_name(topic, pipeline.graph.graph_id), held, "run-2@worker", 600)

    with pytest.raises(LeaseUnavailable, match=f"slot {held} is leased by run-2@worker"):
        move("earliest")
    leases.release(lease)

    assert pipeline.ledger.heads(pipeline.graph.graph_id, topic, [0]) == {0: 2}
    assert moved(move("earliest")) >= {(0, 2, 0)}


def test_after_heads_moved_all_slots_are_free_again(pipeline, topic, move, leases):
    leases.set_desired(topic, DesiredState(replicas=3))
    pipeline.send(topic, ["a"])

    move("earliest")

    assert [slot.holder for slot in leases.assignments(topic)] == ["", "", ""]


@pytest.mark.parametrize("writes", ["0", "1", "ordered"])
def test_a_run_that_lost_its_lease_cannot_move_the_offsets_back(pipeline, topic, move, writes):
    """It is in the middle of a transaction, does not know that it was overtaken, and commits after the heads moved."""
    pipeline.send(topic, ["a", "b", "c"])
    pipeline.drain(topic, "run-1")
    settings, group = pipeline.settings, LiveLane.of(pipeline.graph).group
    is_ordered = writes == "ordered"
    id_ = ordered_transactional_id(group, topic) if is_ordered else transactional_id(group, topic, int(writes))
    stale = transactional_producer(settings, id_)
    stale.init_transactions(120)
    stale.begin_transaction()
    with closing(range_consumer(settings, group)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 3)])
        stale.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata(), 120)

    move({0: 1})

    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        stale.commit_transaction(120)
    assert pipeline.group_offsets(topic)[0] == 1
    assert pipeline.drain(topic, "run-2").records == 2


@pytest.mark.parametrize(("drained", "place"), [pytest.param(1, 3, id="forward"), pytest.param(5, 2, id="back")])
@pytest.mark.parametrize("dies", ["before the heads move", "after the heads have moved"])
def test_a_move_that_dies_half_way_lets_no_run_take_records_for_drained(
    pipeline, topic, move, monkeypatch, drained, place, dies
):
    pipeline.send(topic, ["a", "b", "c", "d", "e"])
    pipeline.drain(topic, "run-1", budget=drained)
    move_heads = Ledger.rebaseline

    def die(ledger, entries):
        if dies == "after the heads have moved":
            move_heads(ledger, entries)
        raise LedgerBusy("died here")

    monkeypatch.setattr(Ledger, "rebaseline", die)
    with pytest.raises(LedgerBusy, match="died here"):
        move({0: place})
    monkeypatch.undo()

    with suppress(RangeFailed):
        pipeline.drain(topic, "run-2")
    kinds = {entry.kind for entry in pipeline.entries(topic)}
    move({0: place})
    report = pipeline.drain(topic, "run-3")

    assert EntryKind.RECOVERED not in kinds
    assert report.records == 5 - place


def test_a_plan_of_a_topic_that_was_made_again_needs_another_run(pipeline, topic, move, make_again):
    class Interrupted(Exception):
        pass

    def interrupt(_):
        raise Interrupted

    pipeline.send(topic, ["a", "b"])
    with pytest.raises(Interrupted):
        pipeline.drain(topic, "run-1", runner=interrupt)
    make_again()
    move("earliest")

    with pytest.raises(TopicReplaced, match="made for the old one; take another run id"):
        pipeline.drain(topic, "run-1")
    assert pipeline.drain(topic, "run-2").status == "empty"


@pytest.fixture
def approve(pipeline, topic, leases):
    """Look where the heads would be moved, and return a function that does it later."""

    def look(place):
        seen = preview_rebaseline(pipeline.settings, pipeline.graph, topic, place)
        to = {each.partition: each.end for each in seen.moves}
        return lambda: rebaseline(pipeline.settings, pipeline.graph, topic, to, by="ops", leases=leases, expected=seen)

    return look


def test_an_approved_move_is_done_once_and_its_repeat_is_accepted(pipeline, topic, approve):
    pipeline.send(topic, ["a", "b"])
    move = approve("latest")

    first, again = move(), move()

    assert moved(first) == {(0, 0, 2), (1, 0, 0)}
    assert moved(again) == {(0, 2, 2), (1, 0, 0)}, "a try that died after the ledger's commit is completed"
    assert pipeline.group_offsets(topic)[0] == 2


def test_an_approved_move_is_refused_after_the_topic_was_drained_further(pipeline, topic, approve):
    pipeline.send(topic, ["a", "b"])
    move = approve("latest")
    pipeline.send(topic, ["c"])
    pipeline.drain(topic, "run-1")
    before = pipeline.entries(topic), pipeline.group_offsets(topic)

    with pytest.raises(HeadsMoved, match="the head was at 0 and is now at 3"):
        move()

    assert (pipeline.entries(topic), pipeline.group_offsets(topic)) == before


def test_an_approved_move_is_refused_after_the_topic_was_made_again(pipeline, topic, approve, make_again):
    pipeline.send(topic, ["a", "b"])
    move = approve("earliest")
    make_again()

    with pytest.raises(TopicReplaced, match="ask again"):
        move()


def test_a_topic_made_again_has_heads_to_approve_though_their_numbers_stay(pipeline, topic, approve, make_again):
    pipeline.send(topic, ["a", "b"])
    pipeline.drain(topic, "run-1")
    assert look(pipeline, topic) == (False, [])
    make_again()
    pipeline.send(topic, ["c", "d"])

    with pytest.raises(TopicReplaced):
        pipeline.drain(topic, "run-2")
    found = look(pipeline, topic)
    approve("latest")()

    assert found == (True, [(0, 2, 2), (1, 0, 0)])
    assert pipeline.drain(topic, "run-3").status == "empty"
    assert look(pipeline, topic) == (False, [])


def look(pipeline, topic):
    found = preview_rebaseline(pipeline.settings, pipeline.graph, topic, "latest")
    return found.is_new_topic, [(each.partition, each.start, each.end) for each in found.changed]

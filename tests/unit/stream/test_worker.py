"""Workers share slots, follow what is wanted, and live through failures of single topics."""

from __future__ import annotations

import pytest

from pipestream.errors import LeaseLost, LeaseStoreUnavailable, TopicMissing
from pipestream.stream.shares import SlotKey
from pipestream.stream.slot_thread import SlotState, SlotThread
from pipestream_testing.waiting import wait_until

TOPICS = [f"intake.d{number}" for number in range(6)]


def state_of(worker, topic):
    return next((status for status in worker.statuses() if status.spec.topic == topic), None)


def test_a_worker_drains_what_is_wanted_and_gives_all_back_when_it_ends(world):
    world.want(*TOPICS)
    world.start("a")
    world.wait_counts(a=6)

    world.stop("a")

    assert world.running == {}
    assert not [found for found in world.store.assignments() if found.holder]


def test_a_worker_waits_for_all_slots_that_hang_no_longer_than_for_one(world, monkeypatch):
    world.want(*TOPICS)
    world.start("a", sidecar_stop_s=2)
    world.wait_counts(a=6)
    waits = []
    join = SlotThread.join
    monkeypatch.setattr(SlotThread, "join", lambda slot, wait_s: waits.append(wait_s) or join(slot, wait_s))
    world.go_on.clear()

    world.stop("a")

    assert len(waits) == 6
    assert len(world.running) == 6
    assert waits[1:] == [0.0] * 5


def test_a_worker_that_comes_gets_its_share_and_one_that_leaves_gives_it_back(world):
    world.want(*TOPICS)
    world.start("a")
    world.wait_counts(a=6)
    world.start("b")
    world.wait_counts(a=3, b=3)
    world.start("c")
    world.wait_counts(a=2, b=2, c=2)

    world.stop("a")

    world.wait_counts(b=3, c=3)


def test_no_worker_holds_more_than_its_room_and_another_takes_the_rest(world):
    world.want(*TOPICS)
    world.start("a", max_leases=2)
    world.wait_counts(a=2)

    world.start("b")

    world.wait_counts(a=2, b=4)


def test_every_slot_is_drained_next_to_a_worker_of_some_topics_alone(world):
    world.want(*TOPICS)
    some = world.start("some", topics=TOPICS[:3], is_sharing=False)
    world.wait_counts(some=3)

    others = world.start("all")

    world.wait_counts(some=3, all=3)
    rounds = some.rounds, others.rounds
    wait_until(lambda: some.rounds >= rounds[0] + 5 and others.rounds >= rounds[1] + 5)
    assert world.counts() == {"some": 3, "all": 3}


def test_a_worker_of_some_topics_alone_leaves_the_others_what_they_hold(world):
    world.want(*TOPICS)
    others = world.start("all", max_leases=5)
    world.wait_counts(all=5)
    [free] = {spec.topic for spec in world.wanted.values()} - {spec.topic for spec in world.running.values()}

    world.start("some", topics=[free, *TOPICS[:3]], is_sharing=False)

    world.wait_counts(all=5, some=1)
    rounds = others.rounds
    wait_until(lambda: others.rounds >= rounds + 5)
    assert world.counts() == {"all": 5, "some": 1}


def test_a_topic_that_is_not_wanted_any_more_ends_and_the_others_go_on(world):
    world.want(*TOPICS)
    world.start("a")
    world.wait_counts(a=6)

    world.want(*TOPICS[:2])

    world.wait_counts(a=2)
    assert world.opened[SlotKey("intake.d0@g", 0)] == 1


def test_slots_are_acquired_and_given_up_as_replicas_change(world):
    world.want("intake.d0", replicas=1)
    world.start("a")
    world.wait_counts(a=1)

    world.want("intake.d0", replicas=3)
    world.wait_counts(a=3)

    world.want("intake.d0", replicas=1)
    world.wait_counts(a=1)
    assert [key.slot for key in world.running] == [0]


def test_a_topic_that_fails_is_shown_as_error_is_tried_again_and_stops_no_other(world):
    world.errors["intake.d0"] = TopicMissing("intake.d0")
    world.want(*TOPICS)
    worker = world.start("a")
    wait_until(lambda: (found := state_of(worker, "intake.d0")) and found.failures >= 2)
    assert len(world.running) == 5
    failed = state_of(worker, "intake.d0")
    assert failed.state is SlotState.ERROR
    assert "intake.d0" in failed.error
    assert state_of(worker, "intake.d1").state is SlotState.ACTIVE

    del world.errors["intake.d0"]

    wait_until(lambda: len(world.running) == 6)
    wait_until(lambda: state_of(worker, "intake.d0").state is SlotState.ACTIVE)


def test_an_error_that_nobody_expected_is_a_failure_of_its_topic_alone(world):
    world.errors["intake.d0"] = ZeroDivisionError("of a library")
    world.want("intake.d0", "intake.d1")
    worker = world.start("a")

    wait_until(lambda: (found := state_of(worker, "intake.d0")) and found.state is SlotState.ERROR)
    wait_until(lambda: len(world.running) == 1)


def test_a_paused_topic_keeps_its_lease_and_is_resumed(world):
    world.want("intake.d0", "intake.d1")
    worker = world.start("a")
    world.wait_counts(a=2)

    assert worker.pause("intake.d0", True)

    wait_until(lambda: len(world.running) == 1)
    assert state_of(worker, "intake.d0").state is SlotState.PAUSED
    assert world.counts() == {"a": 2}
    assert worker.pause("intake.d0", False)
    wait_until(lambda: len(world.running) == 2)
    assert not worker.pause("intake.unknown", True)


def test_a_paused_topic_is_not_given_to_a_worker_that_would_drain_it(world):
    world.want("intake.d0", "intake.d1")
    worker = world.start("a")
    world.wait_counts(a=2)
    for topic in ("intake.d0", "intake.d1"):
        worker.pause(topic, True)
    wait_until(lambda: not world.running)

    other = world.start("b")
    wait_until(lambda: other.rounds >= 3)

    assert world.counts() == {"a": 2, "b": 0}


def test_a_slot_whose_lease_was_taken_away_is_let_go_and_acquired_anew(world):
    world.want("intake.d0")
    world.start("a", lease_ttl_s=3)  # so that the loss is noticed within a second
    world.wait_counts(a=1)
    [before] = world.store.assignments("intake.d0")

    world.store.unregister(["intake.d0"])

    wait_until(lambda: world.store.assignments("intake.d0") and world.counts() == {"a": 1})
    wait_until(lambda: len(world.running) == 1)
    assert world.store.assignments("intake.d0")[0].token > before.token
    [(key, why)] = world.cancelled
    assert key == SlotKey("intake.d0@g", 0)
    assert isinstance(why, LeaseLost)


def test_while_the_lease_store_does_not_answer_what_is_drained_is_drained_on(world, monkeypatch):
    world.want("intake.d0")
    worker = world.start("a")
    world.wait_counts(a=1)

    def refuse(*_):
        raise LeaseStoreUnavailable("for the test")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "assignments", refuse)
        wait_until(lambda: worker.last_error == "for the test")
        assert len(world.running) == 1

    wait_until(lambda: worker.last_error == "")
    assert world.opened[SlotKey("intake.d0@g", 0)] == 1


def test_without_leases_a_worker_drains_everything_and_says_so(world, caplog):
    world.want(*TOPICS)
    with caplog.at_level("WARNING"):
        world.start("a", leases="none", max_leases=1)
        wait_until(lambda: len(world.running) == 6)

    assert "Replicas, modes and max_leases do not apply" in caplog.text


@pytest.mark.parametrize("slots", [1, 2])
def test_more_slots_than_room_are_warned_of(world, caplog, slots):
    world.want(*TOPICS[: slots + 1])
    with caplog.at_level("WARNING"):
        world.start("a", max_leases=slots)
        world.wait_counts(a=slots)
        wait_until(lambda: "have room for" in caplog.text)

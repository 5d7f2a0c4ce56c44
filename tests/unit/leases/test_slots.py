from __future__ import annotations

import pickle

import pytest

from pipestream.errors import LeaseUnavailable, SlotsUnavailable
from pipestream.leases.slots import acquire_any, should_yield, slot_partitions
from pipestream.leases.store import MAX_REPLICAS, Assignment, DesiredState, lay_out
from pipestream.testing.leases import FlakyLeaseStore

TOPIC = "pipestream.main.parser"


@pytest.fixture
def store():
    return FlakyLeaseStore()


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
@pytest.mark.parametrize("partitions", [0, 1, 6, 7, 20])
def test_every_partition_belongs_to_exactly_one_slot(replicas, partitions):
    shares = [slot_partitions(slot, replicas, partitions) for slot in range(replicas)]

    assert sorted(partition for share in shares for partition in share) == list(range(partitions))


def test_a_slot_drains_the_partitions_that_leave_it_as_remainder():
    assert slot_partitions(1, 3, 8) == [1, 4, 7]


@pytest.mark.parametrize(
    ("slot", "replicas", "partitions", "message"),
    [
        pytest.param(2, 2, 4, "slot must be between 0 and 1, not 2", id="slot too high"),
        pytest.param(-1, 2, 4, "slot must be between 0 and 1, not -1", id="slot negative"),
        pytest.param(0, 0, 4, "replicas must be positive, not 0", id="no replicas"),
        pytest.param(0, 1, -4, "partitions must not be negative, not -4", id="negative partitions"),
    ],
)
def test_refuses_a_slot_that_cannot_be(slot, replicas, partitions, message):
    with pytest.raises(ValueError, match=message):
        slot_partitions(slot, replicas, partitions)


@pytest.mark.parametrize("replicas", [0, -1, MAX_REPLICAS + 1])
def test_refuses_a_desired_state_with_replicas_that_cannot_be(replicas):
    with pytest.raises(ValueError, match=f"replicas must be between 1 and 10000, not {replicas}"):
        DesiredState(replicas=replicas)


def test_takes_the_lowest_free_slot(store):
    store.set_desired(TOPIC, DesiredState(replicas=3))
    store.acquire(TOPIC, 0, "worker-a", 20)
    store.acquire(TOPIC, 2, "worker-c", 20)

    assert acquire_any(store, TOPIC, "worker-b", 20).slot == 1


def test_with_one_replica_the_refusal_is_the_stores_own(store):
    store.acquire(TOPIC, 0, "worker-a", 20)

    with pytest.raises(LeaseUnavailable, match=f"{TOPIC} slot 0 is leased by worker-a") as caught:
        acquire_any(store, TOPIC, "worker-b", 20)

    assert type(caught.value) is LeaseUnavailable


def test_with_several_replicas_the_refusal_names_every_holder_also_after_pickling(store):
    store.set_desired(TOPIC, DesiredState(replicas=2))
    for name in ("worker-a", "worker-b"):
        acquire_any(store, TOPIC, name, 20)

    with pytest.raises(SlotsUnavailable) as caught:
        acquire_any(store, TOPIC, "worker-c", 20)

    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.topic, error.holders) == (TOPIC, ("worker-a", "worker-b"))
    assert str(error) == f"all 2 slots of {TOPIC} are leased, by worker-a, worker-b; run again when one is free"


def test_scaling_down_asks_only_the_highest_slots_to_yield(store):
    leases = [store.acquire(TOPIC, slot, "worker", 20) for slot in range(3)]

    store.set_desired(TOPIC, DesiredState(replicas=2))

    assert [should_yield(store, lease) for lease in leases] == [False, False, True]


def test_stopping_a_topic_asks_every_holder_to_yield(store):
    lease = store.acquire(TOPIC, 0, "worker", 20)

    store.set_desired(TOPIC, DesiredState(started=False))

    assert should_yield(store, lease)


def test_lays_out_free_and_held_slots_in_order_and_leaves_out_topics_it_does_not_know():
    held = [Assignment("b", 3, "w"), Assignment("gone", 0, "w"), Assignment("a", 0, "w")]

    assert lay_out({"b": 2, "a": 1}, held) == [
        Assignment("a", 0, "w"),
        Assignment("b", 0),
        Assignment("b", 1),
        Assignment("b", 3, "w"),
    ]

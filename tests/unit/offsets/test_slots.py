from __future__ import annotations

import pytest

from pipestream.leases.store import MAX_REPLICAS, Assignment, DesiredState, lay_out
from pipestream.offsets.plan import slot_partitions


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


def test_lays_out_free_and_held_slots_in_order_and_leaves_out_topics_it_does_not_know():
    held = [Assignment("b", 3, "w"), Assignment("gone", 0, "w"), Assignment("a", 0, "w")]

    assert lay_out({"b": 2, "a": 1}, held) == [
        Assignment("a", 0, "w"),
        Assignment("b", 0),
        Assignment("b", 1),
        Assignment("b", 3, "w"),
    ]


def test_the_slots_of_a_topic_are_laid_out_for_each_graph_that_drains_it():
    replicas = {"intake.a": 2, "intake.a@g": 1, "intake.a@h": 1, "intake.a@g@march": 1}

    laid_out = lay_out(replicas, [Assignment("intake.a@h", 1, "w")])

    assert [(each.lane, each.slot, each.holder) for each in laid_out] == [
        ("g", 0, ""),
        ("g", 1, ""),
        ("h", 0, ""),
        ("h", 1, "w"),
    ]


def test_the_slots_of_a_topic_that_no_graph_was_applied_to_have_no_lane():
    assert [(each.lane, each.slot) for each in lay_out({"intake.a": 2}, [])] == [("", 0), ("", 1)]

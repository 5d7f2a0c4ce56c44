from __future__ import annotations

import random

import pytest

from pipestream.errors import OffsetsExpired, TerminalError, TopicRewound
from pipestream.kafka.records import OffsetRange, Watermarks
from pipestream.offsets.plan import count_lag, plan_ranges


def test_drains_from_the_next_offset_to_the_high_watermark():
    planned = plan_ranges("intake.a", {0: 40}, {0: Watermarks(low=10, high=100)}, budget=1_000)

    assert planned == [OffsetRange("intake.a", 0, 40, 100)]


def test_a_partition_that_was_added_is_read_from_its_first_record():
    planned = plan_ranges("intake.a", {}, {7: Watermarks(low=0, high=9)}, budget=10)

    assert planned == [OffsetRange("intake.a", 7, 0, 9)]


def test_refuses_to_skip_what_retention_deleted_of_a_partition_that_was_added():
    with pytest.raises(OffsetsExpired, match=r"t\[7\]: offsets 0\.\.4 were deleted"):
        plan_ranges("t", {0: 9}, {0: Watermarks(9, 9), 7: Watermarks(low=5, high=9)}, budget=10)


def test_a_hot_partition_does_not_starve_a_quiet_one():
    marks = {0: Watermarks(0, 1_000_000), 1: Watermarks(0, 3)}

    planned = plan_ranges("t", {}, marks, budget=100)

    assert planned == [OffsetRange("t", 0, 0, 97), OffsetRange("t", 1, 0, 3)]


@pytest.mark.parametrize(
    ("next_offset", "low", "high"),
    [
        pytest.param(0, 0, 0, id="empty topic"),
        pytest.param(50, 10, 50, id="caught up"),
        pytest.param(50, 50, 50, id="caught up and all expired"),
    ],
)
def test_plans_nothing_when_nothing_waits(next_offset, low, high):
    assert plan_ranges("t", {0: next_offset}, {0: Watermarks(low, high)}, budget=1) == []


def test_refuses_to_skip_offsets_that_retention_deleted():
    with pytest.raises(OffsetsExpired, match=r"t\[0\]: offsets 5\.\.9 were deleted") as caught:
        plan_ranges("t", {0: 5}, {0: Watermarks(10, 20)}, budget=100)

    assert isinstance(caught.value, TerminalError)
    assert (caught.value.start, caught.value.earliest) == (5, 10)


def test_refuses_a_topic_that_ends_before_what_was_drained():
    with pytest.raises(TopicRewound, match="ends at 20"):
        plan_ranges("t", {0: 21}, {0: Watermarks(0, 20)}, budget=100)


@pytest.mark.parametrize("seed", range(100))
def test_repeated_runs_drain_every_offset_exactly_once(seed):
    rng = random.Random(seed)
    marks = {}
    for partition in range(rng.randrange(1, 6)):
        low = rng.randrange(50)
        marks[partition] = Watermarks(low, low + rng.randrange(200))
    budget = rng.randrange(1, 80)

    done = {partition: mark.low for partition, mark in marks.items()}
    drained = []
    while planned := plan_ranges("t", done, marks, budget=budget):
        assert sum(map(len, planned)) <= budget
        for r in planned:
            drained += [(r.partition, offset) for offset in range(r.start, r.end)]
            done[r.partition] = r.end

    assert sorted(drained) == [(p, o) for p, m in marks.items() for o in range(m.low, m.high)]


def test_the_lag_is_what_lies_beyond_the_heads_and_all_of_a_partition_that_has_none():
    marks = {0: Watermarks(2, 10), 1: Watermarks(3, 7), 2: Watermarks(0, 5)}

    assert count_lag({0: 6, 2: 5}, marks) == 4 + 4 + 0


def test_a_head_that_the_topic_does_not_reach_is_not_lag():
    assert count_lag({0: 9}, {0: Watermarks(0, 4)}) == 0


def test_rejects_a_budget_that_would_drain_nothing():
    with pytest.raises(ValueError, match="budget must be positive, not 0"):
        plan_ranges("t", {}, {}, budget=0)

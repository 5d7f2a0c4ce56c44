"""When a run uses more tasks than there are partitions, and how it cuts its ranges."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pipestream.drain.plan_tasks import Tasks, choose_cut, cut_sub_ranges, seconds_per_document
from pipestream.kafka.records import OffsetRange
from pipestream.ledger.tables import entry_rows
from pipestream.offsets.plan import cut_ranges
from pipestream_testing.made import MADE_AT, make_entry

TASKS = Tasks(at_once=2, wanted="auto", wave_s=30.0, fewest_judged=20)


def cost_of(entries, graph_hash):
    return seconds_per_document(entry_rows(entries), graph_hash)


def ranges(*lengths):
    return [OffsetRange("intake.a", partition, 0, length) for partition, length in enumerate(lengths)]


def test_one_long_partition_of_slow_documents_is_cut_so_that_every_task_slot_has_work():
    cut = choose_cut(ranges(6_000), 0.005, TASKS)

    assert (cut.sub_range_offsets, cut.wave_offsets) == (1_500, 6_000)
    assert cut.reason == (
        "sub-ranges of 1500 offsets, in waves of 6000: 6000 offsets at 5 ms in 1 partitions, 2 tasks at once: "
        "about 30 s with one task per partition, 17 s in sub-ranges"
    )


def test_a_longer_range_is_cut_into_waves_of_the_same_length():
    cut = choose_cut(ranges(100_000), 0.005, TASKS)

    assert (cut.sub_range_offsets, cut.wave_offsets) == (2_778, 11_112)  # nine, of 28 s each


def test_a_wave_has_enough_records_to_judge_whether_most_fail():
    cut = choose_cut(ranges(1_000), 20.0, TASKS)

    assert cut.wave_offsets == TASKS.fewest_judged


def test_each_partition_of_a_wave_has_enough_records_to_judge():
    tasks = replace(TASKS, at_once=16)
    cut = choose_cut(ranges(1_000, 1_000, 1_000, 1_000), 20.0, tasks)

    wave = cut_ranges(ranges(1_000, 1_000, 1_000, 1_000), cut.wave_offsets)
    assert [len(each) for each in wave] == [tasks.fewest_judged] * 4


@pytest.mark.parametrize(
    ("lengths", "cost_s", "tasks", "why"),
    [
        ((1_000,), 0.005, TASKS, "about 5 s with one task per partition, 4 s in sub-ranges"),
        ((6_000, 6_000), 0.005, TASKS, "about 30 s with one task per partition, 32 s in sub-ranges"),
        ((6_000,), None, TASKS, "no earlier run of this topic was long enough to tell its cost"),
        ((6_000,), 0.005, replace(TASKS, at_once=1), "no two tasks run at once"),
        ((6_000,), 0.005, replace(TASKS, wanted="never"), "the setting sub_ranges is never"),
    ],
    ids=["short", "enough partitions", "unknown cost", "one core", "never"],
)
def test_one_task_per_partition_stays_where_sub_ranges_gain_little(lengths, cost_s, tasks, why):
    cut = choose_cut(ranges(*lengths), cost_s, tasks)

    assert (cut.sub_range_offsets, cut.wave_offsets) == (0, 0)
    assert cut.reason.startswith("one task per partition: ")
    assert cut.reason.endswith(why)


def test_one_hot_partition_among_quiet_ones_is_reason_enough():
    assert choose_cut(ranges(20_000, 10, 10), 0.005, replace(TASKS, at_once=4)).sub_range_offsets


def test_always_needs_neither_a_history_nor_several_task_slots():
    cut = choose_cut(ranges(100), None, replace(TASKS, wanted="always", at_once=1))

    assert cut.sub_range_offsets == 50
    assert cut.reason.endswith("the setting sub_ranges is always")


def test_sub_ranges_tile_their_range():
    assert cut_sub_ranges(5, 25, 8) == ((5, 13), (13, 21), (21, 25))
    assert cut_sub_ranges(5, 13, 8) == ((5, 13),)


def test_a_range_that_is_committed_already_has_one_empty_sub_range():
    assert cut_sub_ranges(9, 9, 8) == ((9, 9),)


def test_the_cost_of_a_document_comes_from_runs_that_took_long_enough_to_tell():
    slow = make_entry(0, 1_000, seconds=6.0)
    short = make_entry(1_000, 1_003, run_id="run-2", seconds=4.0)  # the start of a task, mostly

    assert cost_of([slow, short], "h") == pytest.approx(0.005)
    assert cost_of([short], "h") is None


def test_the_short_entries_of_a_stream_are_added_up():
    entries = [
        make_entry(start, start + 100, seconds=2.0, entered_at=MADE_AT + timedelta(seconds=start))
        for start in range(0, 1_000, 100)
    ]
    recovered = make_entry(1_000, 9_000, seconds=0.0)

    assert cost_of([*entries, recovered], "h") == pytest.approx(0.019)  # the start of a task is subtracted


def test_a_history_that_is_wrong_does_not_make_hundreds_of_waves():
    cut = choose_cut(ranges(10_000), 5.0, TASKS)  # 833 waves of 30 s, if that were true

    assert cut.wave_offsets == 200


def test_a_wave_is_never_planned_to_be_longer_than_the_setting_may_be():
    cut = choose_cut(ranges(100_000), 6.0, TASKS)

    assert cut.wave_offsets == 599  # 167 waves, of 1,797 s each


def test_entries_of_the_same_version_of_the_graph_tell_more_than_later_ones_of_another():
    before = make_entry(0, 1_000, seconds=11.0)
    other = make_entry(1_000, 2_000, seconds=101.0, graph_hash="other", entered_at=MADE_AT + timedelta(hours=1))

    assert cost_of([before, other], "h") == pytest.approx(0.010)
    assert cost_of([before, other], "third") == pytest.approx(0.055)

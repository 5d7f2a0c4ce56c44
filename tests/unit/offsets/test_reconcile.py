from __future__ import annotations

from pipestream.kafka.records import OffsetRange, Watermarks
from pipestream.offsets.plan import reconcile

MARKS = {0: Watermarks(3, 100)}


def standing(heads=None, committed=None, begins=None):
    return reconcile("t", MARKS, heads or {}, committed or {}, begins or {})


def test_a_partition_never_drained_has_no_next_offset():
    assert standing().next_offsets == {}


def test_head_and_committed_offset_that_agree_leave_nothing_behind():
    found = standing({0: 40}, {0: 40})

    assert (found.next_offsets, found.left_behind) == ({0: 40}, ())


def test_a_committed_offset_ahead_of_the_head_is_work_that_was_not_entered():
    found = standing({0: 40}, {0: 55})

    assert found.next_offsets == {0: 55}
    assert found.left_behind == (OffsetRange("t", 0, 40, 55),)


def test_offsets_that_kafka_forgot_do_not_start_the_topic_over():
    found = standing({0: 40}, {})

    assert (found.next_offsets, found.left_behind) == ({0: 40}, ())


def test_offsets_that_someone_turned_back_do_not_repeat_what_is_entered():
    found = standing({0: 40}, {0: 10})

    assert (found.next_offsets, found.left_behind) == ({0: 40}, ())


def test_a_first_run_that_died_is_recovered_from_where_its_note_says_it_began():
    assert standing({}, {0: 55}, {0: 50}).left_behind == (OffsetRange("t", 0, 50, 55),)


def test_a_first_run_that_died_without_a_note_began_at_the_low_watermark():
    assert standing({}, {0: 55}).left_behind == (OffsetRange("t", 0, 3, 55),)

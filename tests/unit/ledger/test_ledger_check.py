from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.kafka.records import Watermarks
from pipestream.ledger import EntryKind
from pipestream.ledger.check import FaultKind, find_faults
from pipestream_testing.made import make_entry

TOPIC = "intake.a"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def entry(start, end, *, minute=0, **fields):
    return make_entry(start, end, entered_at=BEGIN + timedelta(minutes=minute), **fields)


def kinds(entries, heads, marks):
    return [(fault.kind, fault.partition) for fault in find_faults(TOPIC, entries, heads, marks)]


def test_ranges_that_join_up_to_the_end_are_complete():
    entries = [entry(10, 15), entry(0, 10), entry(0, 3, partition=1)]

    assert kinds(entries, {0: 15, 1: 3}, {0: Watermarks(0, 15), 1: Watermarks(0, 3)}) == []


def test_a_topic_that_was_never_written_to_is_complete():
    assert kinds([], {}, {0: Watermarks(0, 0)}) == []


def test_a_topic_whose_records_all_expired_unread_has_nothing_waiting():
    assert kinds([], {}, {0: Watermarks(9, 9)}) == []


def test_entries_may_outlive_the_records_they_tell_of():
    assert kinds([entry(0, 10), entry(10, 15)], {0: 15}, {0: Watermarks(12, 15)}) == []


def test_what_is_not_drained_yet_waits():
    (fault,) = find_faults(TOPIC, [entry(0, 10)], {0: 10}, {0: Watermarks(0, 25)})

    assert fault.kind is FaultKind.WAITING
    assert str(fault) == "intake.a[0]: 15 offsets wait from 10 on"


def test_a_topic_without_any_entry_waits_from_its_first_record():
    (fault,) = find_faults(TOPIC, [], {}, {0: Watermarks(5, 8)})

    assert str(fault) == "intake.a[0]: 3 offsets wait from 5 on"


def test_a_missing_range_is_a_gap():
    (fault,) = find_faults(TOPIC, [entry(0, 10), entry(12, 20)], {0: 20}, {0: Watermarks(0, 20)})

    assert fault.kind is FaultKind.GAP
    assert "no entry for 10..12" in str(fault)


def test_a_range_entered_twice_is_an_overlap():
    entries = [entry(0, 10), entry(8, 20)]
    (fault,) = find_faults(TOPIC, entries, {0: 20}, {0: Watermarks(0, 20)})

    assert fault.kind is FaultKind.OVERLAP
    assert "8..10 was recorded twice" in str(fault)


def test_a_range_inside_another_does_not_move_the_end_back():
    assert kinds([entry(0, 20), entry(5, 8)], {0: 20}, {0: Watermarks(0, 20)}) == [(FaultKind.OVERLAP, 0)]


@pytest.mark.parametrize("heads", [{0: 8}, {}])
def test_a_head_that_is_not_where_the_entries_end_is_reported(heads):
    assert (FaultKind.HEAD, 0) in kinds([entry(0, 10)], heads, {0: Watermarks(0, 10)})


def test_a_head_behind_the_end_of_the_topic_is_reported():
    assert kinds([entry(0, 10)], {0: 10}, {0: Watermarks(0, 7)}) == [(FaultKind.HEAD, 0)]


def test_each_partition_is_judged_by_its_own_entries():
    entries = [entry(0, 5), entry(0, 9, partition=1), entry(5, 9, topic="intake.b")]
    marks = {0: Watermarks(0, 9), 1: Watermarks(0, 9)}

    assert kinds(entries, {0: 5, 1: 9}, marks) == [(FaultKind.WAITING, 0)]


def test_after_an_operator_moved_the_head_only_later_ranges_must_join():
    moved = entry(10, 50, kind=EntryKind.REBASELINED, minute=2)
    entries = [entry(0, 10, minute=1), moved, entry(50, 60, minute=3)]

    assert kinds(entries, {0: 60}, {0: Watermarks(50, 60)}) == []


def test_after_an_operator_moved_the_head_back_the_same_offsets_may_be_entered_again():
    moved = entry(0, 1, kind=EntryKind.REBASELINED, minute=2)
    entries = [entry(0, 10, minute=1), moved, entry(1, 12, minute=3)]

    assert kinds(entries, {0: 12}, {0: Watermarks(0, 12)}) == []

"""What a stream has drained and not recorded: its entries, and the counts that a crash at any moment leaves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipestream.drain.range_task import read_metadata
from pipestream.errors import LedgerConflict
from pipestream.kafka.broker import Committed
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry, Tally
from pipestream.stream.unrecorded import Unrecorded

TOPIC = "intake.files"


def some(records):
    return Tally(records, {"a--b": records}, 0)


class Request:
    topic = TOPIC


class Slot:
    """As much of a held slot as the parts ask for."""

    request = Request()
    is_ordered = False

    def entry(self, offsets, kind, tally, seconds):
        plan = {"run_id": "r", "plan_id": "p", "graph_id": "g", "graph_hash": "h", "holder": "me", "token": 1}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return Entry("g", offsets, "id", kind, **plan, tally=tally, seconds=seconds, entered_at=now)


class OrderedSlot(Slot):
    is_ordered = True


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def parts(clock):
    return Unrecorded(Slot(), {0: 100, 1: 7}, lambda: None, clock)


def test_chunks_are_joined_to_one_entry_per_partition_that_moved(parts):
    parts.add(0, 110, some(10))
    parts.add(0, 125, some(14))

    [entry] = parts.take()

    assert (entry.range, entry.tally) == (OffsetRange(TOPIC, 0, 100, 125), some(24))
    assert parts.positions == {0: 125, 1: 7}


def test_what_was_put_back_is_joined_to_what_came_meanwhile(parts):
    parts.add(0, 110, some(10))
    parts.take()
    parts.add(0, 120, some(10))

    parts.put_back()

    [entry] = parts.take()
    assert (entry.range, entry.tally) == (OffsetRange(TOPIC, 0, 100, 120), some(20))


def test_what_was_settled_is_not_handed_out_again(parts):
    parts.add(0, 110, some(10))
    parts.take()
    parts.settle()

    assert parts.take() == []


def test_metadata_counts_from_wherever_the_ledgers_head_may_be_when_the_chunk_is_committed(parts):
    parts.add(0, 110, some(10))
    parts.take()  # the head is at 100, or at 110 as soon as it is entered
    parts.add(0, 120, some(8))

    metadata = parts.metadata(0, some(5))

    assert read_metadata(metadata, 100) == some(23)
    assert read_metadata(metadata, 110) == some(13)
    assert read_metadata(metadata, 120) == some(5), "what was drained so far may be taken before the commit"


def test_what_an_earlier_holder_committed_last_is_counted_by_its_metadata(parts):
    left = parts.metadata(0, some(3))

    assert parts.resume(0, Committed(104, left)) == 104

    [entry] = parts.take()
    assert (entry.range, entry.tally) == (OffsetRange(TOPIC, 0, 100, 104), some(3))


def test_counts_that_nobody_knows_are_not_made_up(parts):
    parts.resume(0, Committed(104, "of another program"))
    parts.add(0, 110, some(6))

    [entry] = parts.take()

    assert (entry.range, entry.tally) == (OffsetRange(TOPIC, 0, 100, 110), None)


def test_a_group_that_was_moved_back_is_refused(parts):
    with pytest.raises(LedgerConflict, match="moved it back"):
        parts.resume(0, Committed(90, ""))


def test_an_entry_says_how_long_records_were_in_hand_and_not_how_long_the_stream_waited_for_them(parts, clock):
    clock.now = 60.0
    parts.begin([0, 0])
    clock.now = 62.0
    parts.add(0, 102, some(2))
    clock.now = 90.0

    [entry] = parts.take()

    assert entry.seconds == 2.0


def test_partitions_with_a_task_each_work_at_the_same_time(parts, clock):
    parts.begin([0])
    parts.begin([1])
    clock.now = 3.0
    assert parts.in_flight == 2
    parts.add(0, 101, some(1))
    parts.add(1, 8, some(1))

    assert [entry.seconds for entry in parts.take()] == [3.0, 3.0]
    assert parts.in_flight == 0


def test_partitions_that_one_task_drains_in_order_of_time_share_its_seconds(clock):
    parts = Unrecorded(OrderedSlot(), {0: 100, 1: 7}, lambda: None, clock)
    parts.begin([0, 1, 1])
    clock.now = 3.0
    parts.add(0, 101, some(1))
    parts.add(1, 9, some(2))

    assert [entry.seconds for entry in parts.take()] == [1.0, 2.0]


def test_the_seconds_of_what_was_put_back_are_not_lost(parts, clock):
    for end in (101, 102):
        parts.begin([0])
        clock.now += 1.5
        parts.add(0, end, some(1))
        if end == 101:
            parts.take()
    parts.put_back()

    assert [entry.seconds for entry in parts.take()] == [3.0]


def test_what_a_runner_drained_took_the_time_that_its_task_was_busy(parts):
    parts.add(0, 101, some(1), 0.5)

    assert [entry.seconds for entry in parts.take()] == [0.5]


def test_parts_stall_while_records_are_in_work_and_nothing_is_committed(parts, clock):
    clock.now = 60.0
    assert parts.stalled_s == 0.0

    parts.begin([0, 0])
    clock.now = 70.0
    assert parts.stalled_s == 10.0
    parts.add(0, 101, some(1))
    assert parts.stalled_s == 0.0
    clock.now = 71.0
    assert parts.stalled_s == 1.0
    parts.add(0, 102, some(1))

    assert parts.stalled_s == 0.0

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

    def entry(self, offsets, kind, tally, seconds):
        plan = {"run_id": "r", "plan_id": "p", "graph_id": "g", "graph_hash": "h", "holder": "me", "token": 1}
        now = datetime(2026, 1, 1, tzinfo=UTC)
        return Entry("g", offsets, "id", kind, **plan, tally=tally, seconds=seconds, entered_at=now)


@pytest.fixture
def parts():
    return Unrecorded(Slot(), {0: 100, 1: 7}, lambda: None)


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

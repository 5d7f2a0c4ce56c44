"""How long a task has records in hand, which is not how long it waits for them."""

from __future__ import annotations

import pytest

from pipestream.drain.busy_time import BusyTime


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_time_without_records_in_hand_does_not_count(clock):
    busy = BusyTime(clock)
    clock.now = 200.0
    busy.begin([0, 0])
    clock.now = 203.0
    busy.end(0, 2)
    clock.now = 300.0

    assert busy.take(0) == 3.0
    assert busy.take(0) == 0.0, "it was taken"


def test_chunks_that_overlap_do_not_count_twice(clock):
    busy = BusyTime(clock)
    busy.begin([0])
    clock.now = 101.0
    busy.begin([0])
    clock.now = 102.0
    busy.end(0, 1)
    clock.now = 104.0
    busy.end(0, 1)

    assert busy.take(0) == 4.0


def test_the_time_to_fetch_the_documents_of_a_chunk_counts(clock):
    busy = BusyTime(clock)
    clock.now = 110.0
    busy.begin([0], since=108.0)
    clock.now = 111.0
    busy.end(0, 1)

    assert busy.take(0) == 3.0


def test_the_partitions_of_a_task_share_its_time(clock):
    busy = BusyTime(clock)
    busy.begin([0, 1, 1, 1])
    clock.now = 104.0
    busy.end(0, 1)
    busy.end(1, 3)

    assert (busy.take(0), busy.take(1)) == (1.0, 3.0)

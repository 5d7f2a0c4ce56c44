from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestream.kafka.records import InputRecord
from pipestream.offsets.release import HELD_BATCHES, Flow, ReleaseBuffer, sort_arrivals

A, B, C = ("t", 0), ("t", 1), ("u", 0)

times = st.lists(st.integers(0, 12), max_size=25)
topics = st.lists(times, min_size=1, max_size=6).map(
    lambda found: {(f"t{i % 2}", i): each for i, each in enumerate(found)}
)


class Reader:
    """Delivers records as a broker might: from any partition that is not paused, in any order, with late ends."""

    def __init__(self, partitions, batch_size, seed, cutoff_ms=None, max_bytes=None, size_of=lambda _: 0):
        self.pending = {p: list(enumerate(found)) for p, found in partitions.items()}
        self.batch_size = batch_size
        self.limit = max(HELD_BATCHES * batch_size, len(partitions))
        self.chance = random.Random(seed)
        self.most_bytes_held = 0
        self.buffer = ReleaseBuffer(
            partitions, batch_size=batch_size, cutoff_ms=cutoff_ms, max_bytes=max_bytes, size_of=size_of
        )
        self.paused = set()
        self.released = []

    def read_all(self):
        while True:
            while found := self.buffer.release(self.batch_size):
                self.released += found
            if self.buffer.is_done:
                return self.released
            self.apply(self.buffer.flow())
            assert self.readable(), "stuck: every partition that is not live is paused"
            for _ in range(max(1, min(self.batch_size, self.buffer.room))):
                self.deliver_one()

    def apply(self, flow):
        assert not set(flow.pause) & self.paused
        assert set(flow.resume) <= self.paused
        self.paused = (self.paused | set(flow.pause)) - set(flow.resume)

    def readable(self):
        return [p for p in self.pending if p not in self.paused and not self.buffer.is_live(p)]

    def deliver_one(self):
        readable = self.readable()
        if not readable:
            return
        partition = self.chance.choice(readable)
        if self.pending[partition]:
            offset, timestamp_ms = self.pending[partition].pop(0)
            self.buffer.add(partition, timestamp_ms, (partition, offset, timestamp_ms))
        else:
            self.buffer.finish(partition)
        assert self.buffer.held <= self.limit
        self.most_bytes_held = max(self.most_bytes_held, self.buffer.held_bytes)


def in_order(partitions):
    keyed = []
    for partition, found in partitions.items():
        for offset, (latest_ms, timestamp_ms) in enumerate(zip(accumulate(found, max), found, strict=True)):
            keyed.append((latest_ms, partition, offset, timestamp_ms))
    return [(partition, offset, timestamp_ms) for _, partition, offset, timestamp_ms in sorted(keyed)]


@given(topics, st.integers(1, 5), st.integers())
def test_any_interleaving_comes_out_once_each_in_one_order_and_within_the_bound(partitions, batch_size, seed):
    assert Reader(partitions, batch_size, seed).read_all() == in_order(partitions)


@given(topics, st.integers(1, 5), st.integers(), st.integers(1, 50), st.integers(1, 200))
def test_no_more_bytes_are_held_than_allowed_and_a_record_of_each_partition(
    partitions, batch_size, seed, size_bytes, max_bytes
):
    reader = Reader(partitions, batch_size, seed, max_bytes=max_bytes, size_of=lambda _: size_bytes)

    assert reader.read_all() == in_order(partitions)
    assert reader.most_bytes_held <= max_bytes + size_bytes * len(partitions)
    assert reader.buffer.held_bytes == 0


@given(topics, st.integers(1, 5), st.integers(), st.integers(1, 200))
def test_records_of_any_size_come_out_in_order_however_few_bytes_may_be_held(partitions, batch_size, seed, max_bytes):
    reader = Reader(partitions, batch_size, seed, max_bytes=max_bytes, size_of=lambda record: record[2] ** 2)

    assert reader.read_all() == in_order(partitions)


@given(topics, st.integers(1, 5), st.integers())
def test_times_never_go_back_where_no_partition_goes_back(partitions, batch_size, seed):
    monotone = {partition: sorted(found) for partition, found in partitions.items()}
    released = [timestamp_ms for _, _, timestamp_ms in Reader(monotone, batch_size, seed).read_all()]

    assert released == sorted(t for found in partitions.values() for t in found)


@given(topics, st.integers(1, 5), st.integers(), st.integers(0, 13))
def test_with_a_cutoff_each_partition_gives_what_comes_up_to_its_first_record_there(
    partitions, batch_size, seed, cutoff_ms
):
    expected = {}
    for partition, found in partitions.items():
        past = [i for i, timestamp_ms in enumerate(found) if timestamp_ms >= cutoff_ms]
        expected[partition] = found[: past[0] + 1] if past else found

    assert Reader(partitions, batch_size, seed, cutoff_ms).read_all() == in_order(expected)


def buffer_of(*partitions, batch_size=2, cutoff_ms=None):
    return ReleaseBuffer(partitions, batch_size=batch_size, cutoff_ms=cutoff_ms)


def fill(buffer, partition, *found):
    for timestamp_ms in found:
        buffer.add(partition, timestamp_ms, timestamp_ms)


def test_records_up_to_the_slowest_partition_are_released():
    buffer = buffer_of(A, B, batch_size=10)
    fill(buffer, A, 100, 200, 300, 400)
    fill(buffer, B, 150, 250)

    assert buffer.release(10) == [100, 150, 200, 250]
    assert buffer.held == 2


def test_a_partition_not_heard_from_holds_everything_back():
    buffer = buffer_of(A, B)
    fill(buffer, A, 1, 2)

    assert buffer.release(10) == []
    buffer.finish(B)
    assert buffer.release(10) == [1, 2]


def test_a_partition_at_its_end_holds_nothing_back_but_gives_its_own_in_turn():
    buffer = buffer_of(A, B)
    fill(buffer, A, 1, 9)
    buffer.finish(A)
    fill(buffer, B, 5)

    assert buffer.release(10) == [1, 5]
    fill(buffer, B, 7)
    assert buffer.release(10) == [7]
    buffer.finish(B)
    assert buffer.release(10) == [9]
    assert buffer.is_done


def test_of_equal_times_the_lower_partition_comes_first_even_if_it_arrives_last():
    buffer = buffer_of(A, B)
    fill(buffer, A, 5)
    buffer.add(B, 5, "second")
    assert buffer.release(10) == [5]
    assert buffer.release(10) == []
    buffer.add(A, 5, "first")

    assert buffer.release(10) == ["first"]


def test_offsets_beat_times_within_a_partition():
    buffer = buffer_of(A, B, batch_size=10)
    fill(buffer, A, 10, 3, 12)
    fill(buffer, B, 5, 11, 13)

    assert buffer.release(10) == [5, 10, 3, 11, 12]


def test_the_latest_time_of_a_partition_never_goes_back():
    buffer = buffer_of(A, B)
    fill(buffer, A, 10, 3)

    assert (buffer.last_ms(A), buffer.last_ms(B)) == (10, None)


def test_no_more_is_released_than_asked_for():
    buffer = buffer_of(A)
    fill(buffer, A, 1, 2, 3)

    assert [buffer.release(2), buffer.release(2)] == [[1, 2], [3]]


def test_a_record_at_the_cutoff_makes_its_partition_live():
    buffer = buffer_of(A, B, cutoff_ms=50)
    fill(buffer, A, 49)
    assert not buffer.is_live(A)
    fill(buffer, A, 50)

    assert buffer.is_live(A)
    with pytest.raises(ValueError, match=r"t\[0\] is live"):
        buffer.add(A, 51, 51)


def test_a_full_buffer_pauses_the_fast_and_never_the_awaited():
    buffer = buffer_of(A, B, C, batch_size=2)
    fill(buffer, A, *range(8))
    assert buffer.room == 0
    assert buffer.flow() == Flow(pause=(A,))
    assert buffer.flow() == Flow()

    fill(buffer, B, 3)
    assert buffer.flow() == Flow(pause=(B,))
    fill(buffer, C, 5)
    assert buffer.held == 10
    assert buffer.release(20) == [0, 1, 2, 3, 3]
    # B is empty, so the rest waits for it: it must go on although more than a batch is held.
    assert buffer.flow() == Flow(resume=(B,))


def test_all_continue_once_less_than_a_batch_is_held():
    buffer = buffer_of(A, B, batch_size=2)
    fill(buffer, A, *range(9))
    buffer.flow()
    fill(buffer, B, 6)
    buffer.flow()
    assert buffer.release(6) == [0, 1, 2, 3, 4, 5]
    assert buffer.flow() == Flow()
    assert buffer.release(6) == [6, 6]
    fill(buffer, B, 9)
    assert buffer.release(6) == [7, 8]

    assert buffer.flow() == Flow(resume=(A, B))


def bytes_buffer(*partitions, max_bytes):
    """Return a buffer whose records are as large as they say, and that takes any number of them."""
    return ReleaseBuffer(partitions, batch_size=1_000, max_bytes=max_bytes, size_of=lambda size: size)


def test_a_buffer_full_of_bytes_pauses_the_fast_and_never_the_awaited():
    buffer = bytes_buffer(A, B, max_bytes=100)
    buffer.add_all(A, [1, 2, 3], [40, 40, 40])

    assert buffer.room == 0
    assert buffer.flow() == Flow(pause=(A,))
    assert not buffer.is_paused(B)
    buffer.add(B, 2, 40)
    assert buffer.release(10) == [40, 40, 40]
    assert buffer.flow() == Flow()
    assert buffer.held_bytes == 40


def test_all_continue_once_a_small_share_of_the_bytes_is_held():
    buffer = bytes_buffer(A, B, max_bytes=100)
    buffer.add_all(A, [1, 2, 9], [50, 50, 19])
    buffer.flow()
    buffer.add(B, 8, 10)
    assert buffer.release(10) == [50, 50, 10]

    assert buffer.flow() == Flow(resume=(A,))


def test_room_is_for_as_many_records_of_the_mean_size_as_the_bytes_left_allow():
    buffer = bytes_buffer(A, B, max_bytes=100)
    assert buffer.room == 1, "how large records are is not known yet"
    buffer.add_all(A, [1, 2], [10, 30])

    assert buffer.room == 3


def test_a_partition_that_waits_for_no_other_is_not_limited():
    buffer = bytes_buffer(A, max_bytes=1)
    buffer.add_all(A, [1, 2], [10, 30])

    assert buffer.room > 900


def test_more_partitions_than_the_bound_hold_one_record_each():
    partitions = {("t", number): [number] * 3 for number in range(12)}
    reader = Reader(partitions, batch_size=1, seed=0)

    assert reader.limit == 12 > HELD_BATCHES
    assert reader.read_all() == in_order(partitions)


def test_a_buffer_without_partitions_is_done():
    assert buffer_of().is_done


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="batch_size must be positive, not 0"):
        buffer_of(A, batch_size=0)


def record(partition, offset, timestamp_ms):
    return InputRecord("t", partition, offset, timestamp_ms, None, None)


def test_records_that_arrive_together_are_sorted_by_time_but_never_against_their_offsets():
    arrived = [record(1, 0, 20), record(1, 1, 5), record(0, 7, 10), record(0, 8, 20)]

    assert [(each.partition, each.offset) for each in sort_arrivals(arrived)] == [(0, 7), (0, 8), (1, 0), (1, 1)]

"""Reading across partitions in order of time, on a real broker."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from pipestream.errors import BrokerUnavailable, OffsetsExpired, TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import InputRecord, OffsetRange
from pipestream.offsets.ordered import OrderedReader
from pipestream.offsets.range_reader import RangeReader
from pipestream.offsets.release import ReleaseBuffer
from pipestream.offsets.source_topic import SourceTopic
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.retention import delete_before
from pipestream_testing.settling import wait_until_settled

pytestmark = pytest.mark.stack

T0_MS = 1_769_860_800_000
DEADLINE_S = 120


class Topic:
    """A topic to write to, with the time of every record given in milliseconds after T0."""

    def __init__(self, settings, name, partitions):
        self.settings = settings
        self.config = {"bootstrap.servers": settings.kafka_bootstrap}
        self.name = name
        TopicAdmin(settings).create([TopicSpec(name, partitions, -1, Purpose.NODE)])

    def write(self, records, producer=None):
        """Write (partition, milliseconds) pairs; the value repeats both."""
        producer = producer or Producer(self.config)
        for partition, ms in records:
            producer.produce(self.name, f"{partition}@{ms}".encode(), partition=partition, timestamp=T0_MS + ms)
        assert producer.flush(120) == 0

    def transact(self, transactional_id, *transactions):
        """Write one transaction after the other: ``(records, is_committed)``."""
        producer = Producer({**self.config, "transactional.id": transactional_id})
        producer.init_transactions(120)
        for records, is_committed in transactions:
            producer.begin_transaction()
            self.write(records, producer)
            if is_committed:
                producer.commit_transaction(120)
            else:
                producer.abort_transaction(120)
        wait_until_settled(self.settings, [self.name])


@pytest.fixture
def make_topic(settings, unique):
    def make(partitions, suffix=""):
        return Topic(settings, f"{unique}{suffix}", partitions)

    return make


@pytest.fixture
def open_reader(settings):
    opened = []

    def open_reader(*sources, cutoff_ms=None, **options):
        opened.append(OrderedReader(settings, sources, cutoff_ms=cutoff_ms, **options))
        return opened[-1]

    yield open_reader
    for reader in opened:
        reader.close()


@pytest.fixture
def held_most(monkeypatch):
    """The most records that a buffer held at any moment, in a list of one."""
    most = [0]
    add_all = ReleaseBuffer.add_all

    def watched(self, *args):
        added = add_all(self, *args)
        most[0] = max(most[0], self.held)
        return added

    monkeypatch.setattr(ReleaseBuffer, "add_all", watched)
    return most


@pytest.fixture
def held_most_bytes(monkeypatch):
    """The most bytes that a buffer held at any moment, in a list of one."""
    most = [0]
    add_all = ReleaseBuffer.add_all

    def watched(self, *args):
        added = add_all(self, *args)
        most[0] = max(most[0], self.held_bytes)
        return added

    monkeypatch.setattr(ReleaseBuffer, "add_all", watched)
    return most


def poll_until(reader, is_done):
    deadline = time.monotonic() + DEADLINE_S
    batches = []
    while not is_done(batches):
        assert time.monotonic() < deadline, f"no progress: {reader.partition_state()}"
        batches.append(reader.poll(200))
    return [row for batch in batches for row in batch.to_pylist()]


def read_past(reader):
    return poll_until(reader, lambda _: reader.is_live())


def read_new(reader, count):
    return poll_until(reader, lambda batches: sum(batch.num_rows for batch in batches) >= count)


def seen(rows):
    return [(row["partition"], row["timestamp_ms"] - T0_MS) for row in rows]


def read_ranges(settings, ranges, batch_size=1_000):
    with RangeReader(settings, "test-ranges", ranges) as reader:
        return [record for records, _ in reader.chunks({}, batch_size) for record in records]


def by_time(records):
    return sorted(records, key=lambda each: (each[1], each[0]))


def test_the_past_comes_in_order_of_time_across_partitions_and_topics(make_topic, open_reader):
    first, second = make_topic(4, ".a"), make_topic(1, ".b")
    # Each partition is written as a whole, so that what arrives together is far from what belongs together.
    written = [(partition, 10 * step + partition) for partition in (2, 0, 1) for step in range(50)]
    first.write(written)
    second.write([(0, 10 * step + 5) for step in range(50)])

    reader = open_reader(SourceTopic.from_earliest(first.name), SourceTopic.from_earliest(second.name), batch_size=7)
    rows = read_past(reader)

    times = [row["timestamp_ms"] - T0_MS for row in rows]
    assert times == sorted([ms for _, ms in written] + [10 * step + 5 for step in range(50)])
    assert seen([row for row in rows if row["topic"] == first.name]) == by_time(written)


def test_a_batch_is_never_larger_than_asked_for(make_topic, open_reader):
    topic = make_topic(2)
    topic.write([(p, ms) for p in (0, 1) for ms in range(20)])
    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=6)

    sizes = []
    poll_until(reader, lambda batches: sizes.append(batches[-1].num_rows if batches else 0) or reader.is_live())

    assert max(sizes) <= 6
    assert sum(sizes) == 40


def test_it_is_not_live_before_all_of_the_past_was_returned(make_topic, open_reader):
    topic = make_topic(1)
    topic.write([(0, ms) for ms in range(10)])
    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=4)

    def is_done(batches):
        assert reader.is_live() == (sum(batch.num_rows for batch in batches) == 10)
        return reader.is_live()

    assert seen(poll_until(reader, is_done)) == [(0, ms) for ms in range(10)]


def test_transaction_markers_and_aborted_records_are_passed_over(make_topic, open_reader, unique):
    topic = make_topic(3)
    topic.transact(
        unique,
        ([(0, 0), (1, 5)], True),
        ([(0, 1), (1, 1)], False),
        ([(0, 10), (1, 7)], True),
        # The last offsets of partition 0 are an aborted record and its marker; partition 2 has nothing else.
        ([(0, 99), (2, 99)], False),
    )

    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=2)

    assert seen(read_past(reader)) == [(0, 0), (1, 5), (1, 7), (0, 10)]
    assert [(state.end, state.position) for state in reader.partition_state()] == [(8, 8), (6, 6), (2, 2)]


def test_a_topic_without_records_is_live_at_once_and_new_records_come(make_topic, open_reader):
    topic = make_topic(2)
    reader = open_reader(SourceTopic.from_earliest(topic.name))
    assert reader.is_live()
    assert reader.poll(0).num_rows == 0

    topic.write([(1, 3)])
    assert seen(read_new(reader, 1)) == [(1, 3)]


def test_fast_partitions_wait_for_slow_ones_and_little_is_held(make_topic, open_reader, held_most, unique):
    topic = make_topic(3)
    # Partition 0 is all newer than partition 1; both end with markers, so that their ends are found by position.
    fast, slow = [(0, 10_000 + ms) for ms in range(600)], [(1, ms) for ms in range(0, 3_000, 10)]
    late = [(2, 10_000 + ms) for ms in range(0, 600, 7)]
    topic.transact(unique, *[(fast[i : i + 50], True) for i in range(0, 600, 50)], ([(0, 0)], False))
    topic.transact(unique, (slow, True), (late, True), ([(1, 0), (2, 0)], False))

    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=5)
    was_paused = set()

    def is_done(_):
        was_paused.update(state.partition for state in reader.partition_state() if state.is_paused)
        assert sum(state.held for state in reader.partition_state()) <= 25
        return reader.is_live()

    assert seen(poll_until(reader, is_done)) == by_time(fast + slow + late)
    assert 0 in was_paused
    assert held_most[0] <= 25


@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_transactions_comes_out_once_each_and_in_order(make_topic, open_reader, held_most, unique, seed):
    chance = random.Random(seed)
    partitions, batch_size = chance.randrange(2, 7), chance.choice([1, 3, 20])
    topic = make_topic(partitions)
    now = [chance.randrange(100) for _ in range(partitions)]
    transactions, committed = [], []
    for _ in range(8):
        records = []
        for _ in range(chance.randrange(1, 60)):
            partition = min(chance.randrange(partitions), chance.randrange(partitions))
            now[partition] += chance.randrange(9)
            records.append((partition, now[partition]))
        transactions.append((records, chance.random() < 0.7))
        committed += records if transactions[-1][1] else []
    topic.transact(unique, *transactions)
    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=batch_size)
    topic.write([(partition, 0) for partition in range(partitions)])

    assert seen(read_past(reader)) == by_time(committed)
    assert sorted(seen(read_new(reader, partitions))) == [(partition, 0) for partition in range(partitions)]
    assert held_most[0] <= max(5 * batch_size, partitions)


def test_what_is_written_after_the_reader_was_made_comes_after_the_past(make_topic, open_reader):
    topic = make_topic(2)
    topic.write([(0, 10), (1, 20)])
    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=3)
    topic.write([(0, 1), (0, 30), (1, 2), (1, 40)])

    assert seen(read_past(reader)) == [(0, 10), (1, 20)]
    assert sorted(seen(read_new(reader, 4))) == [(0, 1), (0, 30), (1, 2), (1, 40)]
    topic.write([(1, 50)])
    assert seen(read_new(reader, 1)) == [(1, 50)]
    assert [(s.start, s.end, s.position, s.is_live, s.held) for s in reader.partition_state()] == [
        (0, 1, 3, True, 0),
        (0, 1, 4, True, 0),
    ]
    assert [s.timestamp_ms - T0_MS for s in reader.partition_state()] == [30, 50]


def test_a_partition_is_live_at_the_cutoff_and_the_rest_of_it_is_not_lost(make_topic, open_reader):
    topic = make_topic(2)
    topic.write([(0, ms) for ms in (1, 5, 50, 51, 52)])
    topic.write([(1, ms) for ms in (2, 3, 4)])
    reader = open_reader(SourceTopic.from_earliest(topic.name), cutoff_ms=T0_MS + 50)

    assert seen(read_past(reader)) == [(0, 1), (1, 2), (1, 3), (1, 4), (0, 5), (0, 50)]
    assert seen(read_new(reader, 2)) == [(0, 51), (0, 52)]


def test_a_partitions_own_order_wins_over_its_times(make_topic, open_reader):
    topic = make_topic(2)
    topic.write([(0, ms) for ms in (10, 3, 12)])
    topic.write([(1, ms) for ms in (5, 11)])

    rows = read_past(open_reader(SourceTopic.from_earliest(topic.name)))

    assert seen(rows) == [(1, 5), (0, 10), (0, 3), (1, 11), (0, 12)]


def test_every_source_starts_where_it_says(make_topic, open_reader):
    topic = make_topic(1)
    topic.write([(0, ms) for ms in (0, 1_000, 2_000)])
    latest = open_reader(SourceTopic.from_latest(topic.name))
    at = open_reader(SourceTopic.from_absolute_time(topic.name, T0_MS + 1_000))
    ago = open_reader(
        SourceTopic.from_relative_time(topic.name, 500),
        clock=lambda: datetime.fromtimestamp(T0_MS / 1_000 + 2, UTC),
    )

    assert latest.is_live()
    assert seen(read_past(at)) == [(0, 1_000), (0, 2_000)]
    assert seen(read_past(ago)) == [(0, 2_000)]


def test_a_plain_client_configuration_is_enough(make_topic, settings, unique):
    topic = make_topic(2)
    topic.write([(0, 30), (1, 10), (0, 40), (1, 20)])
    config = {"bootstrap.servers": settings.kafka_bootstrap, "group.id": unique}

    with OrderedReader(config, [SourceTopic.from_earliest(topic.name)], batch_size=3) as reader:
        rows = read_past(reader)

    assert seen(rows) == [(1, 10), (1, 20), (0, 30), (0, 40)]


def test_the_policy_committed_starts_at_the_offsets_of_the_configurations_own_group(make_topic, settings, unique):
    topic = make_topic(1)
    topic.write([(0, ms) for ms in (0, 10, 20)])
    Broker(settings).commit(unique, topic.name, {0: 2})
    config = {"bootstrap.servers": settings.kafka_bootstrap, "group.id": unique}

    with OrderedReader(config, [SourceTopic.of(topic.name, "committed")]) as reader:
        assert seen(read_past(reader)) == [(0, 20)]


def test_no_more_is_held_than_asked_for(make_topic, open_reader, held_most):
    topic = make_topic(2)
    topic.write([(0, ms) for ms in range(200)] + [(1, 1_000 + ms) for ms in range(200)])

    reader = open_reader(SourceTopic.from_earliest(topic.name), batch_size=10, max_held_messages=20)

    assert len(read_past(reader)) == 400
    assert held_most[0] <= 20


def test_the_command_prints_records_in_order_of_time(make_topic, run):
    topic = make_topic(2)
    topic.write([(0, 30), (1, 10), (0, 40), (1, 20)])

    done = run("read", topic.name, "--batch-size", "3", "--json")

    rows = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [(row["partition"], row["timestamp_ms"] - T0_MS) for row in rows] == [(1, 10), (1, 20), (0, 30), (0, 40)]
    assert "4 records" in done.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--policy", "newest"], "'newest' is not an offset policy"),
        (["--policy", "absolute_time"], "absolute_time needs a time"),
    ],
)
def test_the_command_refuses_a_policy_that_cannot_be(run, options, reason):
    done = run("read", "t", *options)

    assert done.code == 2
    assert reason in done.err


def test_a_missing_topic_is_named(open_reader, unique):
    with pytest.raises(TopicMissing, match=f"topic {unique} does not exist"):
        open_reader(SourceTopic.from_earliest(unique))


def test_records_deleted_before_they_were_read_are_an_error(make_topic, settings):
    topic = make_topic(1)
    topic.write([(0, ms) for ms in range(10)])
    ranges = [OffsetRange(topic.name, 0, 2, 10)]
    delete_before(settings, topic.name, 0, 5)

    with pytest.raises(OffsetsExpired, match=r"\[0\]: offsets 2\.\.4 were deleted"):
        read_ranges(settings, ranges)


def test_a_broker_that_is_not_there_is_an_error_in_time(settings):
    away = settings.model_copy(update={"kafka_bootstrap": "127.0.0.1:1", "kafka_timeout_s": 1.0})

    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127\.0\.0\.1:1, topic t: "):
        read_ranges(away, [OffsetRange("t", 0, 0, 5)])


def test_ranges_give_their_records_in_order_and_nothing_outside_of_them(make_topic, settings):
    topic = make_topic(3)
    topic.write([(p, 10 * step + p) for p in range(3) for step in range(30)])
    ranges = [OffsetRange(topic.name, 0, 5, 20), OffsetRange(topic.name, 2, 0, 30)]

    records = read_ranges(settings, ranges, batch_size=4)

    assert all(isinstance(record, InputRecord) for record in records)
    expected = [(0, 10 * step) for step in range(5, 20)] + [(2, 10 * step + 2) for step in range(30)]
    assert [(r.partition, r.timestamp_ms - T0_MS) for r in records] == by_time(expected)


def test_chunks_say_what_to_commit_and_can_be_taken_up_again_at_any_of_them(make_topic, settings, unique):
    topic = make_topic(2)
    topic.transact(unique, ([(p, 10 * step + p) for p in (0, 1) for step in range(25)], True), ([(1, 0)], False))
    marks = Broker(settings).watermarks(topic.name, [0, 1])
    ranges = [OffsetRange(topic.name, p, m.low, m.high) for p, m in marks.items()]

    committed, records = {}, []
    while committed != {(topic.name, 0): 26, (topic.name, 1): 28}:
        with RangeReader(settings, unique, ranges) as reader:
            assert reader.committed() == {}
            chunk, offsets = next(reader.chunks(committed, 8))
        records += chunk
        committed |= offsets

    assert [(r.partition, r.offset) for r in records] == [(p, step) for step in range(25) for p in (0, 1)]
    with RangeReader(settings, unique, ranges) as reader:
        assert list(reader.chunks(committed, 8)) == []


def test_ranges_that_are_apart_in_time_are_read_with_few_bytes_held_back(settings, make_topic, held_most_bytes):
    topic = make_topic(2)
    producer = Producer(topic.config)
    for ms in range(200):
        # Partition 0 is behind in time, so every record of partition 1 waits for all of it.
        for partition in (0, 1):
            at_ms = T0_MS + ms + 1_000 * partition
            producer.produce(topic.name, b"x" * 1_000, partition=partition, timestamp=at_ms)
    assert producer.flush(120) == 0
    ranges = [OffsetRange(topic.name, partition, 0, 200) for partition in (0, 1)]

    records = read_ranges(settings.model_copy(update={"in_flight_bytes": 40_000}), ranges)

    assert [(record.partition, record.offset) for record in records] == [(p, o) for p in (0, 1) for o in range(200)]
    assert 0 < held_most_bytes[0] <= 10_000 + 2 * 1_000

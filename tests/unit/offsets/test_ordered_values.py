from __future__ import annotations

import pytest

from pipestream.graph.start import parse_start
from pipestream.kafka.records import InputRecord
from pipestream.offsets.ordered import SCHEMA, OrderedReader, SourceTopic, to_batch
from pipestream.settings import Settings


@pytest.mark.parametrize(
    ("source", "start_at"),
    [
        (SourceTopic.from_earliest("t"), "earliest"),
        (SourceTopic.from_latest("t"), "latest"),
        (SourceTopic.from_committed("t", "g"), "committed:g"),
        (SourceTopic.from_relative_time("t", 3_600_000), "PT1H"),
        (SourceTopic.from_absolute_time("t", 1_769_846_400_000), "2026-01-31T08:00:00Z"),
    ],
)
def test_a_source_says_the_same_as_a_graphs_start_at(source, start_at):
    assert source == SourceTopic("t", parse_start(start_at))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SourceTopic.from_relative_time("t", -1), "ago_ms must be 0 to"),
        (lambda: SourceTopic.from_relative_time("t", 10**18), "ago_ms must be 0 to"),
        (lambda: SourceTopic.from_absolute_time("t", 10**18), "is no time in milliseconds since 1970"),
        (lambda: SourceTopic.from_committed("t", ""), "group must not be empty"),
    ],
)
def test_a_source_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("topics", "batch_size", "message"),
    [
        ([], 1, "at least one topic"),
        ([SourceTopic.from_earliest("t"), SourceTopic.from_latest("t")], 1, "each only once"),
        ([SourceTopic.from_earliest("t")], 0, "batch_size must be positive"),
    ],
)
def test_a_reader_that_cannot_be_is_refused_before_a_broker_is_asked(topics, batch_size, message):
    with pytest.raises(ValueError, match=message):
        OrderedReader(Settings(), topics, cutoff_ms=None, batch_size=batch_size)


def test_records_become_rows_with_nothing_lost():
    headers = (("a", b"1"), ("a", b"2"))
    batch = to_batch([InputRecord("t", 3, 7, 99, None, b"v", headers), InputRecord("t", 0, 8, 100, b"k", None)])

    assert batch.schema == SCHEMA
    assert batch.to_pylist() == [
        {
            "topic": "t",
            "partition": 3,
            "offset": 7,
            "timestamp_ms": 99,
            "key": None,
            "value": b"v",
            "headers": [{"name": "a", "value": b"1"}, {"name": "a", "value": b"2"}],
        },
        {"topic": "t", "partition": 0, "offset": 8, "timestamp_ms": 100, "key": b"k", "value": None, "headers": []},
    ]


def test_no_records_are_an_empty_batch_of_the_same_columns():
    assert to_batch([]).schema == SCHEMA
    assert to_batch([]).num_rows == 0

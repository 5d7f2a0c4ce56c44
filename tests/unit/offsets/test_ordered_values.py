from __future__ import annotations

import pytest

from pipestream.errors import RequestInvalid
from pipestream.graph.start import parse_start
from pipestream.kafka.plain_config import read_client_config
from pipestream.kafka.records import InputRecord
from pipestream.offsets.ordered import SCHEMA, OrderedReader, to_batch
from pipestream.offsets.source_topic import SourceTopic
from pipestream.settings import Settings


@pytest.mark.parametrize(
    ("source", "start_at"),
    [
        (SourceTopic.from_earliest("t"), "earliest"),
        (SourceTopic.from_latest("t"), "latest"),
        (SourceTopic.from_committed("t", "g"), "committed:g"),
        (SourceTopic.from_relative_time("t", 3_600_000), "PT1H"),
        (SourceTopic.from_absolute_time("t", 1_769_846_400_000), "2026-01-31T08:00:00Z"),
        (SourceTopic.of("t", "earliest"), "earliest"),
        (SourceTopic.of("t", "latest"), "latest"),
        (SourceTopic.of("t", "committed", group="g"), "committed:g"),
        (SourceTopic.of("t", "relative_time", time_ms=3_600_000), "PT1H"),
        (SourceTopic.of("t", "absolute_time", time_ms=1_769_846_400_000), "2026-01-31T08:00:00Z"),
    ],
)
def test_a_source_says_the_same_as_a_graphs_start_at(source, start_at):
    assert source == SourceTopic("t", parse_start(start_at))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SourceTopic.from_relative_time("t", -1), "ago_ms must be 0 to"),
        (lambda: SourceTopic.from_relative_time("t", 10**18), "ago_ms must be 0 to"),
        (lambda: SourceTopic.from_absolute_time("t", 10**18), "is not a time in milliseconds since 1970"),
        (
            lambda: SourceTopic.of("t", "newest"),
            "'newest' is not an offset policy; use one of earliest, latest, committed",
        ),
        (lambda: SourceTopic.of("t", "relative_time"), r"relative_time needs a time: give time_ms \(how long ago\)"),
        (lambda: SourceTopic.of("t", "absolute_time"), "absolute_time needs a time: give time_ms"),
        (lambda: SourceTopic.of("t", "earliest", time_ms=5), "earliest takes no time"),
    ],
)
def test_a_source_that_cannot_be_is_refused(make, message):
    with pytest.raises(RequestInvalid, match=message):
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
    with pytest.raises(RequestInvalid, match=message):
        OrderedReader(Settings(), topics, cutoff_ms=None, batch_size=batch_size)


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ({}, {}, "bootstrap.servers is missing; name the brokers"),
        ({"bootstrap.servers": "x:1", "auto.offset.reset": "latest"}, {}, "auto.offset.reset cannot be set"),
        ({"bootstrap.servers": "x:1", "sasl.pasword": "p"}, {}, "did you mean sasl.password"),
        ({"bootstrap.servers": "x:1"}, {}, "the policy committed needs a group"),
        ({"bootstrap.servers": "x:1", "group.id": "g"}, {"max_held_messages": 5}, "must be at least batch_size"),
    ],
)
def test_a_client_configuration_that_cannot_be_used_is_refused_with_the_reason(config, options, message):
    with pytest.raises(RequestInvalid, match=message):
        OrderedReader(config, [SourceTopic.from_committed("t")], **options)


def test_a_client_configuration_reads_neither_environment_nor_file(monkeypatch):
    monkeypatch.setenv("PIPESTREAM_KAFKA_BOOTSTRAP", "elsewhere:1")
    monkeypatch.setenv("PIPESTREAM_CHUNK_RECORDS", "many")

    settings, group = read_client_config({"bootstrap.servers": "here:1", "group.id": "g", "sasl.password": "hunter2"})

    assert (settings.kafka_bootstrap, group) == ("here:1", "g")
    assert settings.kafka_options["sasl.password"].get_secret_value() == "hunter2"
    assert settings.kafka_timeout_s == Settings.model_fields["kafka_timeout_s"].default


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

"""What the fault tests' model of the broker promises, Kafka keeps too: the same tests run on both."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count

import pytest

from pipestream import faults
from pipestream.dead_letters.kafka import KafkaLetterBroker
from pipestream.errors import ProducerFenced
from pipestream.kafka import writer as kafka_writer
from pipestream.kafka.records import OffsetRange, OutputRecord, Watermarks
from pipestream.kafka.writer import Progress
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import KEEP_FOREVER_MS, Purpose, TopicSpec
from pipestream_testing.broker import ModelBroker
from pipestream_testing.waiting import wait_until


class Died(Exception):
    """A producer stops here, with its transaction open."""


@pytest.fixture
def topic(unique):
    return f"pipestream.{unique}.node"


@pytest.fixture(params=["model", pytest.param("kafka", marks=pytest.mark.stack)])
def broker(request, topic):
    if request.param == "model":
        model = ModelBroker(lambda: faults.reach(faults.CHUNK_PRODUCED))
        model.create(topic, 1)
        return model
    settings = request.getfixturevalue("settings")
    TopicAdmin(settings).create([TopicSpec(topic, 1, KEEP_FOREVER_MS, Purpose.NODE)])
    return KafkaLetterBroker(settings)


@pytest.fixture
def send(broker, topic):
    """Send documents in one transaction of a producer."""

    def send(writer, *keys):
        with broker.open_reader("group", [OffsetRange(topic, 0, 0, 1)]) as reader:
            outputs = [OutputRecord(topic, key.encode(), b"") for key in keys]
            writer.commit(outputs, [Progress(0, 1)], reader.group_metadata())

    return send


@pytest.fixture
def leave_open(broker, send, monkeypatch):
    """Send documents, and die before the commit."""

    def leave_open(writer, *keys):
        # Kafka's writer reaches the point once, between the two; the model's has a step before each.
        left = iter(range(int(isinstance(broker, ModelBroker))))

        def reach(_):
            if next(left, None) is None:
                raise Died

        with monkeypatch.context() as patch:
            patch.setattr(faults, "reach", reach)
            with pytest.raises(Died):
                send(writer, *keys)

    return leave_open


@pytest.fixture
def before_second_start(broker, monkeypatch):
    """Do something when a writer has started the first of its producers, and is about to start the second."""

    def before_second_start(work):
        starts = count(1)

        def start_producer(*of):
            if next(starts) == 2:
                work()
            return start(*of)

        if isinstance(broker, ModelBroker):
            start = lambda: None  # noqa: E731 - the model's start is what follows on the step
            monkeypatch.setattr(broker, "step", start_producer)
        else:
            start = kafka_writer.start_producer
            monkeypatch.setattr(kafka_writer, "start_producer", start_producer)

    return before_second_start


def wait_until_it_ends_at(broker, topic, high):
    # A commit returns before Kafka has written its marker.
    wait_until(lambda: broker.watermarks(topic, [0])[0].high >= high, f"{topic} did not end at {high}")
    assert broker.watermarks(topic, [0])[0] == Watermarks(0, high)


def read(broker, topic, end, size=100):
    with broker.open_reader("group", [OffsetRange(topic, 0, 0, end)]) as reader:
        return [([record.key.decode() for record in records], upto) for records, upto in _chunks(reader, topic, size)]


def _chunks(reader, topic, size):
    return [(records, ends[topic, 0]) for records, ends in reader.chunks({}, size)]


def test_a_marker_uses_an_offset_and_the_last_chunk_ends_where_the_range_does(broker, topic, send):
    with broker.start_writer([f"{topic}/0"], topic) as writer:
        send(writer, "a", "b")
        send(writer, "c")

    wait_until_it_ends_at(broker, topic, 5)
    assert read(broker, topic, 5, size=2) == [(["a", "b"], 2), (["c"], 5)]


def test_after_a_chunk_that_is_full_before_a_marker_the_range_still_ends_where_it_should(broker, topic, send):
    with broker.start_writer([f"{topic}/0"], topic) as writer:
        send(writer, "a", "b")

    wait_until_it_ends_at(broker, topic, 3)
    # Kafka may say that the partition is at its end together with the last record.
    assert read(broker, topic, 3, size=2) in ([(["a", "b"], 2), ([], 3)], [(["a", "b"], 3)])


def test_a_producer_that_starts_later_fences_the_one_before(broker, topic, send):
    with broker.start_writer([f"{topic}/0"], topic) as first, broker.start_writer([f"{topic}/0"], topic) as second:
        with pytest.raises(ProducerFenced):
            send(first, "lost")
        send(second, "kept")

    wait_until_it_ends_at(broker, topic, 2)
    assert read(broker, topic, 2) == [(["kept"], 2)]


def test_two_writers_that_fence_each_other_never_both_write_though_one_starts_while_the_other_does(
    broker, topic, send, before_second_start
):
    with ExitStack() as stack:
        inside = []
        before_second_start(
            lambda: inside.append(stack.enter_context(broker.start_writer([f"{topic}/ordered", f"{topic}/0"], topic)))
        )
        outside = stack.enter_context(broker.start_writer([f"{topic}/0", f"{topic}/ordered"], topic))

        for writer in (outside, *inside):
            with pytest.raises(ProducerFenced):
                send(writer, "lost")


def test_an_open_transaction_holds_back_readers_until_its_producers_heir_aborts_it(broker, topic, send, leave_open):
    with (
        broker.start_writer([f"{topic}/dead"], topic) as dead,
        broker.start_writer([f"{topic}/other"], topic) as other,
    ):
        leave_open(dead, "never")
        send(other, "behind")
        assert broker.watermarks(topic, [0])[0] == Watermarks(0, 0)

        with broker.start_writer([f"{topic}/dead"], topic):
            wait_until_it_ends_at(broker, topic, 4)

    assert read(broker, topic, 4) == [(["behind"], 4)]

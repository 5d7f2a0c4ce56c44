"""What calls to an accepted slot have written."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import range_consumer
from pipestream.kafka.errors import is_end_of_partition, is_passing
from pipestream.settings import Settings
from pipestream_testing.settling import wait_until_settled

_ANSWER_S = 120.0


def read_values(settings: Settings, topic: str) -> Counter[bytes]:
    """Return how often each value is committed in a topic."""
    wait_until_settled(settings, [topic])
    found: Counter[bytes] = Counter()
    reading = set(Broker(settings).identify(topic).partitions)
    with closing(range_consumer(settings, "test-reader")) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in reading])
        while reading:
            message = consumer.poll(_ANSWER_S)
            assert message is not None, f"no answer from Kafka within {_ANSWER_S:g} s"
            error = message.error()
            if error is None:
                found[message.value() or b""] += 1
            elif is_end_of_partition(error):
                reading.discard(message.partition() or 0)
            else:
                assert is_passing(error), error
    return found

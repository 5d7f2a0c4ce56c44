"""The topic of the accepted log: made once, one partition for each slot, and read from the oldest key that counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # it does not declare what it exports

from pipestream.accepted.record import Accepted, decode_accepted
from pipestream.errors import AcceptedLogInvalid, BrokerUnavailable
from pipestream.kafka.broker import RETENTION, Broker
from pipestream.kafka.clients import admin_client, log_consumer
from pipestream.kafka.errors import explain_errors
from pipestream.kafka.messages import fetch, place_of
from pipestream.kafka.records import Partition
from pipestream.settings import Settings

log = logging.getLogger(__name__)

_CHUNK_RECORDS = 1_000
_POLL_S = 0.5
_VISIBLE_POLL_S = 0.05
# Kafka deletes whole segments, once their newest record is too old. Small ones keep the log not much longer than the
# window, so that a slot starts quickly.
_SEGMENTS = 5
_SHORTEST_SEGMENT_MS = 60_000


def accepted_topic(name: str) -> str:
    """Return the topic of the accepted log of a group of engines."""
    return f"{name}.accepted"


def ensure_topic(settings: Settings, topic: str, slots: int) -> None:
    """Make the topic, or check the one that is there.

    :raises AcceptedLogInvalid: it has another number of partitions: keys would be looked for in the wrong ones. Or it
        deletes keys too early.
    """
    broker = Broker(settings)
    window_ms = int(settings.engine_window_s * 1_000)
    if topic not in broker.existing():
        _create(settings, topic, slots, window_ms)
        _wait_until_visible(settings, broker, topic)
    found = len(broker.identify(topic).partitions)
    if found != slots:
        raise AcceptedLogInvalid(
            f"{topic} has {found} partitions, and {slots} slots are asked for. The slot of a key must not change: set "
            f"engine_slots to {found}, or stop all engines, wait until the window is over, and delete the topic"
        )
    retention_ms = broker.configs([topic])[topic].retention_ms
    if 0 <= retention_ms < window_ms:
        raise AcceptedLogInvalid(
            f"{topic} keeps keys for {retention_ms / 1_000:g} s, and engine_window_s promises "
            f"{settings.engine_window_s:g} s; raise its {RETENTION}, or lower engine_window_s"
        )


def read_accepted(settings: Settings, topic: str, slot: int) -> Iterator[Accepted]:
    """Yield what a slot has accepted within the window, oldest first.

    The caller has fenced every other writer of the partition, so that its end does not move.

    :raises BrokerUnavailable: it could not be read to its end.
    :raises AcceptedLogInvalid: a record cannot be read.
    """
    broker = Broker(settings)
    end = broker.written_ends(topic, [slot])[slot]
    since_ms = max(0, int((time.time() - settings.engine_window_s) * 1_000))
    start = broker.offsets_at(topic, [slot], since_ms).get(slot)
    if start is None or start >= end:
        return
    with closing(log_consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, slot, start)])
        yield from _read(consumer, settings, (topic, slot), end)


def _read(consumer: Consumer, settings: Settings, place: Partition, end: int) -> Iterator[Accepted]:
    """Read up to an offset. A transaction's marker may be the last before it, so the event of the end counts too."""
    heard_at = time.monotonic()
    position = 0
    while position < end:
        for message in fetch(consumer, _CHUNK_RECORDS, _POLL_S):
            if place_of(message, consumer, settings, {place: position}) != place:
                continue
            position = message.offset() or 0
            if message.error() is None:
                yield from decode_accepted(message.value() or b"", f"{place[0]}[{place[1]}] at {position}")
                position += 1
            heard_at = time.monotonic()
        if time.monotonic() - heard_at > settings.kafka_timeout_s:
            raise BrokerUnavailable(f"{place[0]}[{place[1]}]: not read to its end in {settings.kafka_timeout_s:g} s")


def _create(settings: Settings, topic: str, slots: int, window_ms: int) -> None:
    config = {
        RETENTION: str(window_ms),
        "segment.ms": str(max(_SHORTEST_SEGMENT_MS, window_ms // _SEGMENTS)),
        "cleanup.policy": "delete",
    }
    wanted = NewTopic(topic, num_partitions=slots, replication_factor=settings.kafka_replication, config=config)
    admin = admin_client(settings)  # kept until the answer is there, which is lost with the client
    future = admin.create_topics([wanted], operation_timeout=settings.kafka_timeout_s)[topic]
    with explain_errors(settings, topic):
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another slot was faster
                raise


def _wait_until_visible(settings: Settings, broker: Broker, topic: str) -> None:
    deadline = time.monotonic() + settings.kafka_timeout_s
    while topic not in broker.existing():
        if time.monotonic() > deadline:
            raise BrokerUnavailable(f"{topic} did not show within {settings.kafka_timeout_s:g} s")
        time.sleep(_VISIBLE_POLL_S)

"""Read everything that topics hold, to find out which records there are; not to process them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from pipestream.errors import BrokerUnavailable
from pipestream.kafka.clients import admin_client, log_consumer, scanning_consumer
from pipestream.kafka.errors import ask_patiently, explain, explain_errors, is_missing
from pipestream.kafka.messages import fetch, place_of, to_record
from pipestream.kafka.records import InputRecord, OffsetRange, Partition
from pipestream.settings import Settings

log = logging.getLogger(__name__)

_CHUNK_RECORDS = 5_000
_POLL_S = 0.5
# Each partition that is read has a queue in the client, and each question about offsets names every partition.
_PARTITIONS_AT_ONCE = 100
_PARTITIONS_ASKED = 1_000


def find_held(settings: Settings, topics: Iterable[str], *, committed: bool = False) -> list[OffsetRange]:
    """Return the offsets that topics hold, by partition, committed or not; a topic that is not there holds none.

    :param committed: only up to the last stable offset: all that a committed reader sees lies before it.
    :raises BrokerUnavailable: no broker answered.
    """
    admin = admin_client(settings)
    with explain_errors(settings):
        known = admin.list_topics(timeout=settings.kafka_timeout_s).topics
    wanted = [
        TopicPartition(topic, partition)
        for topic in sorted(set(topics) & known.keys())
        for partition in sorted(known[topic].partitions)
    ]
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    held: list[OffsetRange] = []
    for first in range(0, len(wanted), _PARTITIONS_ASKED):
        part = wanted[first : first + _PARTITIONS_ASKED]
        low = _offsets(admin, part, OffsetSpec.earliest(), isolation, settings)  # type: ignore[no-untyped-call]
        end = _offsets(admin, part, OffsetSpec.latest(), isolation, settings)  # type: ignore[no-untyped-call]
        held += [OffsetRange(*place, low[place], end[place]) for place in low if low[place] < end.get(place, 0)]
    return held


def scan(settings: Settings, held: Sequence[OffsetRange], *, committed: bool = False) -> Iterator[InputRecord]:
    """Yield the records of some ranges, of different partitions, in no order between them.

    Records of transactions that are open or aborted are among them: an open one may hold back the last stable offset,
    and records that others have committed behind it count as well. What retention deletes meanwhile is left out.

    :param committed: only what is committed, up to the last stable offset.
    :raises BrokerUnavailable: nothing was heard from the broker for too long.
    """
    open_consumer = log_consumer if committed else scanning_consumer
    for first in range(0, len(held), _PARTITIONS_AT_ONCE):
        part = held[first : first + _PARTITIONS_AT_ONCE]
        with closing(open_consumer(settings)) as consumer:
            consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in part])
            yield from _read(consumer, settings, {(each.topic, each.partition): each.end for each in part})


def find_first(settings: Settings, ranges: Sequence[OffsetRange]) -> dict[Partition, InputRecord]:
    """Return the first record of each of some ranges, of different partitions; one that holds none is absent.

    All partitions are read by one client, and each only until its first record is there.

    :raises BrokerUnavailable: nothing was heard from the broker for too long.
    """
    found: dict[Partition, InputRecord] = {}
    for first in range(0, len(ranges), _PARTITIONS_AT_ONCE):
        part = ranges[first : first + _PARTITIONS_AT_ONCE]
        with closing(scanning_consumer(settings)) as consumer:
            consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in part])
            ends = {(each.topic, each.partition): each.end for each in part}
            for record in _read(consumer, settings, ends, first_only=True):
                found[record.topic, record.partition] = record
    return found


def _read(
    consumer: Consumer, settings: Settings, ends: Mapping[Partition, int], *, first_only: bool = False
) -> Iterator[InputRecord]:
    waiting = set(ends)
    heard_at = time.monotonic()
    while waiting:
        messages = fetch(consumer, _CHUNK_RECORDS, _POLL_S)
        if not messages and time.monotonic() - heard_at > settings.kafka_timeout_s:
            raise BrokerUnavailable(f"{sorted(waiting)[0]}: nothing heard for {settings.kafka_timeout_s:g} s")
        for message in messages:
            if _is_of_missing_topic(message, settings):
                waiting = {place for place in waiting if place[0] != message.topic()}
                continue
            place = place_of(message, consumer, settings, dict.fromkeys(ends, 0))
            if place not in waiting:
                continue
            if message.error() is not None:  # the event that the partition is read to its end
                waiting.discard(place)
                continue
            record = to_record(message)
            if record.offset < ends[place]:
                yield record
            if first_only:
                consumer.pause([TopicPartition(*place)])
            if first_only or record.offset + 1 >= ends[place]:
                waiting.discard(place)
        if messages:  # only now: the time that the caller takes over the records is not the broker's silence
            heard_at = time.monotonic()


def _is_of_missing_topic(message: Message, settings: Settings) -> bool:
    """Tell whether a topic was deleted while it was read: it is asked for again, as a new leader may not know it."""
    error, topic = message.error(), message.topic()
    if error is None or topic is None or not is_missing(error):
        return False
    return not find_held(settings, [topic])


def _offsets(
    admin: AdminClient,
    wanted: Sequence[TopicPartition],
    spec: OffsetSpec,
    isolation: IsolationLevel,
    settings: Settings,
) -> dict[Partition, int]:
    """Return an offset per partition; one whose topic was deleted meanwhile is absent."""

    def ask() -> dict[Partition, int]:
        futures = admin.list_offsets(
            dict.fromkeys(wanted, spec),
            isolation_level=isolation,
            request_timeout=settings.kafka_timeout_s,
        )
        found: dict[Partition, int] = {}
        for place, future in futures.items():
            try:
                found[place.topic, place.partition] = future.result().offset
            except KafkaException as error:
                if not is_missing(error.args[0]):
                    raise
        return found

    try:
        return ask_patiently(ask, settings.kafka_timeout_s)
    except KafkaException as error:
        raise explain(error.args[0], settings) from error

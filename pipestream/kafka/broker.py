"""What is asked of Kafka: the topics, their identity, set-up and offsets, and the groups' progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.kafka.clients import admin_client, idempotent_producer, offsets_consumer, start_producer
from pipestream.kafka.errors import ask_patiently, explain, explain_errors
from pipestream.kafka.records import Partition, Watermarks
from pipestream.settings import Settings

log = logging.getLogger(__name__)

RETENTION = "retention.ms"
MAX_MESSAGE = "max.message.bytes"
# Markers are written within milliseconds; this covers a broker under load.
_SETTLING_S = 5.0


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic as the broker knows it. ``topic_id`` tells apart two topics that had the same name."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """How a topic is set up, as far as this product looks after it."""

    retention_ms: int
    """How long it keeps its records; -1 means forever."""
    max_message_bytes: int
    """How large a batch of records it takes, compressed as it arrives."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed offset, and the metadata that was committed with it."""

    offset: int
    metadata: str


class Broker:
    """What is asked of the broker, each answered within the timeout or not at all. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.kafka_timeout_s
        self._admin = admin_client(settings)

    def existing(self) -> dict[str, int]:
        """Return every topic on the broker with its number of partitions."""
        with explain_errors(self._settings):
            topics = self._admin.list_topics(timeout=self._timeout_s).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def identify(self, topic: str) -> TopicIdentity:
        """Return a topic's id and partitions.

        :raises TopicMissing: there is no such topic.
        """
        with explain_errors(self._settings, topic):
            future = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s)[topic]
            found = future.result()
        return TopicIdentity(str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Return which of some topics do not exist."""
        names = list(topics)
        if not names:
            return []
        with explain_errors(self._settings):
            futures = self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout_s)
        absent = []
        for name, future in futures.items():
            try:
                with explain_errors(self._settings, name):
                    future.result()
            except TopicMissing:
                absent.append(name)
        return absent

    def configs(self, topics: Iterable[str]) -> dict[str, TopicConfig]:
        """Return how topics are set up.

        :raises TopicMissing: one of them is not there.
        """
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        with explain_errors(self._settings):
            futures = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        found: dict[str, TopicConfig] = {}
        for resource, future in futures.items():
            with explain_errors(self._settings, resource.name):
                options = future.result()
            found[resource.name] = TopicConfig(int(options[RETENTION].value), int(options[MAX_MESSAGE].value))
        return found

    def watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:
        """Return the offsets a committed reader can read, per partition."""
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        low = self._list_offsets(wanted, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        high = self._list_offsets(wanted, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: Watermarks(low[partition], high[partition]) for partition in low}

    def written_ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last one that is written, per partition, whether it is committed or not."""
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._list_offsets(wanted, spec, IsolationLevel.READ_UNCOMMITTED)

    def settled_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:
        """Return the watermarks once the transactions that were just committed show.

        A producer's commit returns before the broker has written its markers, and until then a committed reader
        does not see the records. A drain planned right after the one before it would leave them for the next run.
        Only what is there when asked is waited for, so that a topic that is written to all the time settles as well;
        and a transaction that stays open is not waited for longer than a moment.
        """
        partitions = list(partitions)
        deadline = time.monotonic() + _SETTLING_S
        written = self.written_ends(topic, partitions)
        while True:
            marks = self.watermarks(topic, partitions)
            if all(marks[p].high >= end for p, end in written.items()) or time.monotonic() > deadline:
                return marks
            time.sleep(0.05)

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, Committed]:
        """Return a group's committed offsets; a partition it never committed is absent.

        While a dead task's transaction is open, the value is a lower bound, and the task reads again after it has
        fenced the dead one.
        """
        # Not the admin client's list_consumer_group_offsets: on a broker whose offsets topic is still being made
        # it brings the whole process down (librdkafka hands "not coordinator" to a group that a mere admin lacks).
        with explain_errors(self._settings, topic), closing(offsets_consumer(self._settings, group)) as consumer:
            wanted = [TopicPartition(topic, p) for p in partitions]
            found = ask_committed(consumer, wanted, self._timeout_s)
        return {partition: committed for (_, partition), committed in found.items()}

    def fence(self, topic: str, transactional_ids: Iterable[str]) -> None:
        """Make sure that no task which is at work on a topic under one of the ids commits anything any more."""
        for transactional_id in transactional_ids:
            with closing(start_producer(self._settings, transactional_id, topic)):
                log.debug("%s: fenced %s", topic, transactional_id)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set a group's committed offsets, outside any transaction. Only for commands of an operator."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        with explain_errors(self._settings, topic), closing(offsets_consumer(self._settings, group)) as consumer:
            consumer.commit(offsets=wanted, asynchronous=False)

    def write(self, topic: str, key: bytes, value: bytes) -> None:
        """Write one record, outside any transaction, and wait until Kafka has it."""
        producer = idempotent_producer(self._settings)
        failures: list[KafkaError] = []
        with explain_errors(self._settings, topic):
            producer.produce(
                topic,
                value=value,
                key=key,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            undelivered = producer.flush(self._timeout_s)
        if failures:
            raise explain(failures[0], self._settings, topic)
        if undelivered:
            raise BrokerUnavailable(f"{topic}: a record was not accepted within {self._timeout_s:g} s")

    def offsets_at(self, topic: str, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """Return, per partition, the offset of the first stable record at or after a time.

        A partition without one is absent. Records behind that offset may be older, where producers set times.

        :param timestamp_ms: not negative: to Kafka, negative times are questions of another kind.
        """
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        found = self._list_offsets(wanted, OffsetSpec.for_timestamp(timestamp_ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def offsets_over_time(self, places: Sequence[Partition], times_ms: Sequence[int]) -> list[dict[Partition, int]]:
        """Return for each of some times the offsets of the first records at or after it, by topic and partition.

        As ``offsets_at``, for many partitions and times: all questions are asked before the first answer is awaited.
        """
        if not places:
            return [{} for _ in times_ms]
        wanted = [TopicPartition(*place) for place in places]
        with explain_errors(self._settings):
            asked = [
                self._admin.list_offsets(
                    dict.fromkeys(wanted, OffsetSpec.for_timestamp(moment)),
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=self._timeout_s,
                )
                for moment in times_ms
            ]
            return [
                {
                    (place.topic, place.partition): offset
                    for place, future in futures.items()
                    if (offset := future.result().offset) >= 0
                }
                for futures in asked
            ]

    def _list_offsets(
        self,
        wanted: list[TopicPartition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> dict[int, int]:
        if not wanted:
            return {}

        def ask() -> dict[int, int]:
            futures = self._admin.list_offsets(
                dict.fromkeys(wanted, spec), isolation_level=isolation, request_timeout=self._timeout_s
            )
            return {found.partition: future.result().offset for found, future in futures.items()}

        with explain_errors(self._settings, wanted[0].topic):
            return ask_patiently(ask, self._timeout_s)


def ask_committed(consumer: Consumer, wanted: Sequence[TopicPartition], timeout_s: float) -> dict[Partition, Committed]:
    """Return the committed offsets of a consumer's group, by topic and partition; one never committed is absent.

    :raises KafkaException: it is not known for one of them. That must not look like "never committed".
    """

    def ask() -> list[TopicPartition]:
        found: list[TopicPartition] = consumer.committed(list(wanted), timeout=timeout_s)
        for partition in found:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return found

    return {
        (each.topic, each.partition): Committed(each.offset, each.metadata or "")
        for each in ask_patiently(ask, timeout_s)
        if each.offset >= 0
    }

"""What a drain asks of Kafka: the topic's identity, its offsets, and clients set up for transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from pipestream.errors import BrokerUnavailable, TopicMissing
from pipestream.kafka.ranges import Watermarks
from pipestream.settings import Settings

log = logging.getLogger(__name__)
# Without a logger of its own the client writes to stderr, past every log file.
client_log = logging.getLogger("pipestream.kafka")

# A transaction is only open while a chunk's outputs are sent, so a minute is plenty; after it the broker
# aborts what a dead task left open, and the last stable offset moves on.
_TRANSACTION_TIMEOUT_MS = 60_000
# Markers are written within milliseconds; a second covers a broker under load.
_SETTLING_S = 1.0

_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # A broker that was just restarted may know less of its own leadership than the client remembers.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)
_MOVING_PAUSE_S = 0.1

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A topic as the broker knows it. ``topic_id`` tells apart two topics that had the same name."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed offset, and the note that was committed with it."""

    offset: int
    note: str


class Broker:
    """What a run asks of the broker, each answered within the timeout or not at all."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._timeout_s = settings.kafka_timeout_s
        self._admin = AdminClient(client_config(settings), logger=client_log)

    def identify(self, topic: str) -> TopicIdentity:
        """Return a topic's id and partitions.

        :raises TopicMissing: there is no such topic.
        """
        with explain_errors(self._settings, topic):
            future = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_s)[topic]
            found = future.result()
        return TopicIdentity(str(found.topic_id), tuple(sorted(p.id for p in found.partitions)))

    def watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:
        """Return the offsets a committed reader can read, per partition."""
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        low = self._list_offsets(wanted, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        high = self._list_offsets(wanted, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: Watermarks(low[partition], high[partition]) for partition in low}

    def settled_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:
        """Return the watermarks once the transactions that were just committed show.

        A producer's commit returns before the broker has written its markers, and until then a committed reader
        does not see the records. A drain planned right after the one before it would leave them for the next run.
        A transaction that stays open is not waited for longer than a moment.
        """
        partitions = list(partitions)
        deadline = time.monotonic() + _SETTLING_S
        while True:
            marks = self.watermarks(topic, partitions)
            wanted = [TopicPartition(topic, partition) for partition in partitions]
            spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            written = self._list_offsets(wanted, spec, IsolationLevel.READ_UNCOMMITTED)
            if all(marks[p].high >= end for p, end in written.items()) or time.monotonic() > deadline:
                return marks
            time.sleep(0.05)

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, Committed]:
        """Return a group's committed offsets; a partition it never committed is absent.

        Unstable on purpose: while a dead task's transaction is open, the stable value would block until it
        times out. The value is then a lower bound, and the task reads again after it has fenced the dead one.
        """
        config = {**client_config(self._settings), "group.id": group, "isolation.level": "read_uncommitted"}
        # Not the admin client's list_consumer_group_offsets: on a broker whose offsets topic is still being made
        # it brings the whole process down (librdkafka hands "not coordinator" to a group that a mere admin lacks).
        with explain_errors(self._settings, topic), closing(Consumer(config)) as consumer:
            wanted = [TopicPartition(topic, p) for p in partitions]
            found = ask_committed(consumer, wanted, self._timeout_s)
        return {partition: committed for (_, partition), committed in found.items()}

    def fence(self, topic: str, transactional_ids: Iterable[str]) -> None:
        """Make sure that no task which is at work on a topic under one of the ids commits anything any more."""
        for transactional_id in transactional_ids:
            with closing(start_producer(self._settings, transactional_id, topic)):
                log.debug("%s: fenced %s", topic, transactional_id)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set a group's committed offsets, outside any transaction. Only for an operator's hand."""
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        config = {**client_config(self._settings), "group.id": group}
        with explain_errors(self._settings, topic), closing(Consumer(config, logger=client_log)) as consumer:
            consumer.commit(offsets=wanted, asynchronous=False)

    def offsets_at(self, topic: str, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int]:
        """Return, per partition, the offset of the first stable record at or after a time.

        A partition without one is absent. Records behind that offset may be older, where producers set times.

        :param timestamp_ms: not negative: to Kafka, negative times are questions of another kind.
        """
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        found = self._list_offsets(wanted, OffsetSpec.for_timestamp(timestamp_ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

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
            return _patiently(ask, self._timeout_s)


def ask_committed(
    consumer: Consumer, wanted: Sequence[TopicPartition], timeout_s: float
) -> dict[tuple[str, int], Committed]:
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
        for each in _patiently(ask, timeout_s)
        if each.offset >= 0
    }


def start_producer(settings: Settings, transactional_id: str, topic: str) -> Producer:
    """Return a producer that has fenced every earlier one of its id and aborted what that one left open."""
    producer = transactional_producer(settings, transactional_id)
    with explain_errors(settings, topic):
        producer.init_transactions(settings.kafka_timeout_s)
    return producer


def _patiently(ask: Callable[[], Answer], timeout_s: float) -> Answer:
    """Ask again while the broker is still settling who answers: on a new broker, for a new topic, after a restart."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                raise
        time.sleep(_MOVING_PAUSE_S)


@contextmanager
def explain_errors(settings: Settings, topic: str) -> Iterator[None]:
    """Turn the client's errors into ours."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0] if error.args else None
        if isinstance(cause, KafkaError) and cause.code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ):
            raise TopicMissing(topic) from error
        reason = cause.str() if isinstance(cause, KafkaError) else error
        raise BrokerUnavailable(f"Kafka at {settings.kafka_bootstrap}: {reason}") from error


def client_config(settings: Settings) -> dict[str, Any]:
    """Return what every client needs."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        "client.id": "pipestream",
        "log.connection.close": False,
    }


def range_consumer(settings: Settings, group: str) -> Consumer:
    """Return a consumer that reads only committed records and says when it is at the end of a partition."""
    return Consumer(
        {
            **client_config(settings),
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # A missing offset must be an error: any silent choice would skip or repeat records.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "queued.min.messages": 10_000,
            # Once so many are queued the client stops fetching for this long: a second, unless told otherwise,
            # in which a reader empties the queue many times over (16 k instead of 240 k records/s).
            "fetch.queue.backoff.ms": 5,
        },
        logger=client_log,
    )


def transactional_producer(settings: Settings, transactional_id: str) -> Producer:
    """Return a producer for one partition's drain; ``init_transactions`` fences every earlier one."""
    return Producer(
        {
            **client_config(settings),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
            # The topic's own limit decides what is too large, not the client's default of 1 MB.
            "message.max.bytes": 100_000_000,
            "queue.buffering.max.messages": 1_000_000,
            # The commit tells of success; a call per record would cost more than the record.
            "delivery.report.only.error": True,
            "partitioner": "murmur2_random",
        },
        logger=client_log,
    )

"""The clients of the product: all of them are set up here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from pipestream.errors import SettingsInvalid
from pipestream.kafka.connection import client_config
from pipestream.kafka.errors import explain_errors
from pipestream.settings import Settings

# Without a logger of its own the client writes to stderr, past every log file.
log = logging.getLogger(__name__)

# A transaction is only open while a chunk's outputs are sent, so a minute is plenty; after it the broker
# aborts what a dead task left open, and the last stable offset moves on.
TRANSACTION_TIMEOUT_S = 60.0
# A chunk has thousands of records, which share large batches.
LINGER_MS = 20

_CONNECT_S = 0.05

Client = TypeVar("Client", AdminClient, Consumer, Producer)


def admin_client(settings: Settings) -> AdminClient:
    """Return a client that asks about topics and changes them."""
    return _open(AdminClient, settings, {})


def offsets_consumer(settings: Settings, group: str) -> Consumer:
    """Return a consumer that reads no records: it asks for a group's committed offsets, and sets them.

    It reads the unstable offset on purpose: while a dead task's transaction is open, reading the stable offset would
    block until that transaction times out. The value is then a lower bound.
    """
    return _open(Consumer, settings, {"group.id": group, "isolation.level": "read_uncommitted"})


def range_consumer(settings: Settings, group: str) -> Consumer:
    """Return a consumer that reads only committed records and says when it is at the end of a partition."""
    return _open(
        Consumer,
        settings,
        {
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # A missing offset must be an error: any silent choice would skip or repeat records.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "queued.min.messages": 10_000,
            # Once so many are queued the client stops fetching for this long: a second by default,
            # in which a reader empties the queue many times over (16 k instead of 240 k records/s).
            "fetch.queue.backoff.ms": 5,
        },
    )


def scanning_consumer(settings: Settings) -> Consumer:
    """Return a consumer that reads all that a topic holds, also what is not committed yet, and commits nothing."""
    return _open(
        Consumer,
        settings,
        {
            "group.id": "pipestream.scan",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # What retention deletes during the scan is not there any more.
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
        },
    )


def idempotent_producer(settings: Settings) -> Producer:
    """Return a producer that writes each record once, or reports within the timeout that it could not."""
    return _open(
        Producer,
        settings,
        {
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "zstd",
            "message.timeout.ms": int(settings.kafka_timeout_s * 1_000),
        },
    )


def log_consumer(settings: Settings) -> Consumer:
    """Return a consumer that reads what is committed in a topic from the oldest record that is left."""
    return _open(
        Consumer,
        settings,
        {
            "group.id": "pipestream.log",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # Retention may delete the oldest records between the question for them and the reading.
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 5,
        },
    )


def transactional_producer(
    settings: Settings,
    transactional_id: str,
    transaction_timeout_s: float = TRANSACTION_TIMEOUT_S,
    linger_ms: int = LINGER_MS,
) -> Producer:
    """Return a producer for one partition's drain; ``init_transactions`` fences every earlier one."""
    return _open(
        Producer,
        settings,
        {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(transaction_timeout_s * 1_000),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": linger_ms,
            # The topic's own limit decides what is too large, not the client's default of 1 MB.
            "message.max.bytes": 100_000_000,
            "queue.buffering.max.messages": 1_000_000,
            # The commit reports success; a call per record would cost more than the record.
            "delivery.report.only.error": True,
            "partitioner": "murmur2_random",
        },
    )


def start_producer(
    settings: Settings,
    transactional_id: str,
    topic: str,
    transaction_timeout_s: float = TRANSACTION_TIMEOUT_S,
    linger_ms: int = LINGER_MS,
) -> Producer:
    """Return a producer that has fenced every earlier one of its id and aborted what that one left open."""
    producer = transactional_producer(settings, transactional_id, transaction_timeout_s, linger_ms)
    # Before the client is connected, it looks for the transaction's coordinator only every half second.
    producer.poll(_CONNECT_S)
    with explain_errors(settings, topic):
        producer.init_transactions(settings.kafka_timeout_s)
    return producer


def _open(kind: type[Client], settings: Settings, options: Mapping[str, Any]) -> Client:
    """Make a client.

    :raises SettingsInvalid: the client cannot use a value of ``kafka_options``, which only it can judge.
    """
    try:
        return kind({**client_config(settings), **options}, logger=log)
    except KafkaException as error:
        raise SettingsInvalid(f"kafka_options: {error.args[0].str()}") from error

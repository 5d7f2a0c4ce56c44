"""The clients of the product: all of them are set up here."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from pipestream.kafka.errors import explain_errors
from pipestream.settings import Settings

# Without a logger of its own the client writes to stderr, past every log file.
log = logging.getLogger(__name__)

# A transaction is only open while a chunk's outputs are sent, so a minute is plenty; after it the broker
# aborts what a dead task left open, and the last stable offset moves on.
_TRANSACTION_TIMEOUT_MS = 60_000


def client_config(settings: Settings) -> dict[str, Any]:
    """Return what every client needs."""
    return {
        "bootstrap.servers": settings.kafka_bootstrap,
        "client.id": "pipestream",
        "log.connection.close": False,
    }


def admin_client(settings: Settings) -> AdminClient:
    """Return a client that asks about topics and changes them."""
    return AdminClient(client_config(settings), logger=log)


def offsets_consumer(settings: Settings, group: str) -> Consumer:
    """Return a consumer that reads no records: it asks for a group's committed offsets, and sets them.

    What it is told is unstable on purpose: while a dead task's transaction is open, the stable value would block
    until it times out. The value is then a lower bound.
    """
    return Consumer({**client_config(settings), "group.id": group, "isolation.level": "read_uncommitted"}, logger=log)


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
        logger=log,
    )


def idempotent_producer(settings: Settings) -> Producer:
    """Return a producer that writes each record once, or reports within the timeout that it could not."""
    return Producer(
        {
            **client_config(settings),
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "zstd",
            "message.timeout.ms": int(settings.kafka_timeout_s * 1_000),
        },
        logger=log,
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
        logger=log,
    )


def start_producer(settings: Settings, transactional_id: str, topic: str) -> Producer:
    """Return a producer that has fenced every earlier one of its id and aborted what that one left open."""
    producer = transactional_producer(settings, transactional_id)
    with explain_errors(settings, topic):
        producer.init_transactions(settings.kafka_timeout_s)
    return producer

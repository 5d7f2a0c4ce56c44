"""The loops that people write by hand: read a record, pass it on, commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from pipestream.kafka.connection import client_config
from pipestream.settings import Settings


@contextmanager
def reading(settings: Settings, topic: str, partitions: int) -> Iterator[Consumer]:
    options = {"group.id": f"loop-{uuid.uuid4()}", "enable.auto.commit": False, "isolation.level": "read_committed"}
    with closing(Consumer({**client_config(settings), **options})) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        yield consumer


def pass_on_one_by_one(settings: Settings, source: str, target: str, partitions: int, count: int) -> None:
    """Wait for each record's delivery, then commit its offset: at least once, as the seeds' loop."""
    producer = Producer({**client_config(settings), "linger.ms": 0})
    with reading(settings, source, partitions) as consumer:
        passed = 0
        while passed < count:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            producer.produce(target, message.value(), message.key(), partition=message.partition())
            producer.flush()
            consumer.commit(message, asynchronous=False)
            passed += 1


def pass_on_in_transactions(
    settings: Settings, source: str, target: str, partitions: int, count: int, batch: int = 10_000
) -> None:
    """Pass records on by thousands, each batch in a transaction with its offsets: exactly once, without a ledger."""
    options = {"transactional.id": f"loop-{uuid.uuid4()}", "compression.type": "lz4", "linger.ms": 20}
    producer = Producer({**client_config(settings), **options, "queue.buffering.max.messages": 1_000_000})
    producer.init_transactions()
    with reading(settings, source, partitions) as consumer:
        passed = 0
        while passed < count:
            messages = consumer.consume(batch, 0.5)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, message.value(), message.key(), partition=message.partition())
            producer.send_offsets_to_transaction(_ends(messages), consumer.consumer_group_metadata())
            producer.commit_transaction()
            passed += len(messages)


def _ends(messages: list[Message]) -> list[TopicPartition]:
    ends = {message.partition(): message.offset() + 1 for message in messages}
    topic = messages[0].topic()
    return [TopicPartition(topic, partition, offset) for partition, offset in ends.items()]

"""Do at once what retention does one day."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from pipestream.kafka.clients import admin_client
from pipestream.settings import Settings

_ANSWER_S = 120.0


def delete_before(settings: Settings, topic: str, partition: int, offset: int) -> None:
    """Delete the records of a partition that lie before an offset."""
    admin = admin_client(settings)  # until the answers are there: they do not come to a client that is gone
    for deleted in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        deleted.result(_ANSWER_S)

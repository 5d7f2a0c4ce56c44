"""Count what topics hold, to check the ledger's numbers against what is really there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.dead_letters.log import read_records
from pipestream.kafka.broker import Broker

if TYPE_CHECKING:
    from pipestream.settings import Settings


def count_records(settings: Settings, topic: str) -> int:
    """Return how many committed records a topic holds.

    :raises TopicMissing: there is no such topic.
    """
    broker = Broker(settings)
    marks = broker.settled_watermarks(topic, broker.identify(topic).partitions)
    return sum(1 for partition, mark in marks.items() for _ in read_records(settings, topic, partition, mark))

"""Read what topics hold, to check the ledger's numbers against what is really there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.dead_letters.log import read_records
from pipestream.kafka.broker import Broker

if TYPE_CHECKING:
    from pipestream.settings import Settings


def read_doc_ids(settings: Settings, topic: str) -> list[str]:
    """Return the document of every committed record that a topic holds. A record's key is its document's id.

    :raises TopicMissing: there is no such topic.
    """
    broker = Broker(settings)
    marks = broker.settled_watermarks(topic, broker.identify(topic).partitions)
    records = (each for partition, mark in marks.items() for each in read_records(settings, topic, partition, mark))
    return [(record.key or b"").decode("utf-8", "replace") for record in records]

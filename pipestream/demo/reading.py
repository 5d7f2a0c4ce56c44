"""Read whole topics, to check the ledger's numbers against what is really there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from pipestream.demo.summary import DeadLetter
from pipestream.drain.dead_letters import CONNECT
from pipestream.kafka.broker import Broker
from pipestream.kafka.ranges import OffsetRange
from pipestream.kafka.reader import RangeReader
from pipestream.kafka.records import InputRecord, header
from pipestream.topics.required import Purpose, required_topics
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

_CHUNK = 1_000
# The reader commits nothing, so the group leaves no trace.
_GROUP = "pipestream-demo-reader"


def read_topic(settings: Settings, topic: str) -> Iterator[InputRecord]:
    """Yield every committed record of a topic.

    :raises TopicMissing: there is no such topic.
    """
    broker = Broker(settings)
    marks = broker.watermarks(topic, broker.identify(topic).partitions)
    for partition, mark in sorted(marks.items()):
        if mark.low < mark.high:
            with RangeReader(settings, _GROUP, OffsetRange(topic, partition, mark.low, mark.high)) as reader:
                for records, _ in reader.chunks(mark.low, _CHUNK):
                    yield from records


def read_dead_letters(settings: Settings, graph: Graph) -> list[DeadLetter]:
    """Return the dead letters in all of a graph's dead-letter topics."""
    topics = [spec.name for spec in required_topics(graph, settings) if spec.purpose is Purpose.DEAD_LETTERS]
    return [_dead_letter(record) for topic in topics for record in read_topic(settings, topic)]


def _dead_letter(record: InputRecord) -> DeadLetter:
    kind = header(record.headers, f"{CONNECT}exception.class.name") or "error"
    message = header(record.headers, f"{CONNECT}exception.message") or "no reason given"
    return DeadLetter(_document(record), header(record.headers, f"{CONNECT}stage") or "", f"{kind}: {message}")


def _document(record: InputRecord) -> str:
    """Return the id of the document; a dead letter may hold anything, so its key is the last resort."""
    try:
        stream = PipeStream.FromString(record.value or b"")
    except DecodeError:
        stream = PipeStream()
    return stream.document_ref.doc_id or stream.document.doc_id or (record.key or b"").decode("utf-8", "replace")

"""Which documents the records in Kafka refer to, and which topics have such records."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from google.protobuf.message import DecodeError

from pipestream.documents.blobs import blobs_of
from pipestream.errors import TopicMissing
from pipestream.kafka.scan import find_held, scan
from pipestream.topics.named import is_named_by_rule, read_named_topics
from pipestream.topics.required import required_topics
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.kafka.broker import TopicIdentity
    from pipestream.objects.store import ObjectStore
    from pipestream.settings import Settings

log = logging.getLogger(__name__)


class Topics(Protocol):
    """What is asked of the broker."""

    def existing(self) -> Mapping[str, int]: ...

    def identify(self, topic: str) -> TopicIdentity: ...


@dataclass(slots=True)
class References:
    """What records refer to: objects by their key, and streams with all that was stored for them.

    Kept as numbers of 64 bits, since there may be many. Two texts of one number only mean that one document more is
    kept.
    """

    records: int = 0
    _numbers: set[int] = field(default_factory=set)

    def add(self, value: bytes | None) -> None:
        """Add what a record refers to. One that is not a stream refers to nothing: no drain could read it either."""
        self.records += 1
        try:
            stream = PipeStream.FromString(value or b"")
        except DecodeError:
            return
        # A record also keeps the rest of its stream. A reference without a key is derived from the stream's id, and
        # a task that processes the record again may write objects of its stream again.
        self.add_keys((stream.stream_id, stream.document_ref.object_key))
        self.add_keys(blob.storage_ref.object_key for blob in blobs_of(stream.document))

    def add_keys(self, keys: Iterable[str]) -> None:
        """Add objects, or streams; empty texts are none."""
        self._numbers.update(_number(key) for key in keys if key)

    def __contains__(self, key: str) -> bool:
        """Tell whether a record refers to an object, or to the stream that it belongs to."""
        if _number(key) in self._numbers:
            return True
        root, _, rest = key.partition("/")
        parts = rest.split("/")
        return root == "streams" and len(parts) == 3 and _number(parts[1]) in self._numbers


def find_referring_topics(
    histories: Iterable[Sequence[Graph]], broker: Topics, store: ObjectStore, settings: Settings
) -> list[str]:
    """Return the topics whose records may refer to documents, of those that exist, sorted.

    Those that any version of a graph has had, those that drains have recorded, and all that are named as this product
    names its topics: of a graph that was never applied here, or that another cluster runs on the same broker.

    :raises BrokerRefused: one of them may not be looked at, so nobody knows what it refers to.
    """
    known = {spec.name for versions in histories for graph in versions for spec in required_topics(graph, settings)}
    known |= read_named_topics(store)
    existing = broker.existing().keys()
    found = {topic for topic in existing if topic in known or is_named_by_rule(topic)}
    # A list of all topics leaves out those that we have no right to, so each that is not in it is asked for by name.
    return sorted(found | {topic for topic in known - existing if _is_there(broker, topic)})


def _is_there(broker: Topics, topic: str) -> bool:
    try:
        broker.identify(topic)
    except TopicMissing:
        return False
    return True


def scan_references(settings: Settings, topics: Iterable[str]) -> References:
    """Read topics to their present ends, and return what their records refer to.

    :raises BrokerUnavailable: a topic could not be read to its end. Then nothing is known of the rest.
    """
    held = find_held(settings, topics)
    log.info("reading %d offsets of %d partitions", sum(map(len, held)), len(held))
    found = References()
    for record in scan(settings, held):
        found.add(record.value)
    return found


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())

"""Which documents the records in Kafka refer to."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from pipestream.kafka.scan import find_held, scan
from pipestream.wire import PipeStream

if TYPE_CHECKING:
    from pipestream.settings import Settings

log = logging.getLogger(__name__)


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
        # whoever processes the record again may write objects of its stream again.
        for text in (stream.stream_id, stream.document_ref.object_key):
            if text:
                self._numbers.add(_number(text))

    def __contains__(self, key: str) -> bool:
        """Tell whether a record refers to an object, or to the stream that it belongs to."""
        if _number(key) in self._numbers:
            return True
        root, _, rest = key.partition("/")
        parts = rest.split("/")
        return root == "streams" and len(parts) == 3 and _number(parts[1]) in self._numbers


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

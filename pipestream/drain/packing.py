"""Put small documents of a chunk together in segments, and let their records refer to their places there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pipestream import faults
from pipestream.documents.segments import build_segment, draw_segment_key
from pipestream.engine.carry import RecordResult
from pipestream.graph.model import Graph
from pipestream.kafka.partitions import partition_of
from pipestream.settings import Settings
from pipestream.topics.required import required_topics
from pipestream.wire import DocumentReference

# With fewer documents a segment saves too little for what it costs: a document in it cannot be deleted alone.
_FEWEST = {"segments": 4, "auto": 32}
# A large document takes a request of its own at no loss, and would make its neighbours wait.
_LARGEST_DOCUMENT_BYTES = 1024 * 1024
# The size that was measured: 206 k documents of 1 KB/s written to a local S3 server, against 3.2 k/s one by one.
_SEGMENT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that may go into a segment, and the output that refers to it."""

    result: RecordResult
    index: int
    key: str
    data: bytes

    def refer_to(self, segment_key: str, offset: int) -> None:
        """Let the output refer to a place in a segment; its object is not stored."""
        place = DocumentReference(object_key=segment_key, object_offset=offset, object_length=len(self.data))
        self.result.refer_to(self.index, place)
        self.result.objects.pop(self.key, None)


class Packer:
    """Packs the documents of the nodes whose graph says so."""

    def __init__(self, graph: Graph, settings: Settings) -> None:
        self._fewest = {node.node_id: _FEWEST[node.storage] for node in graph.nodes if node.storage in _FEWEST}
        # For the order in a segment only, so a topic with another number of partitions is still read correctly.
        self._partitions = {each.name: each.partitions for each in required_topics(graph, settings)}

    def pack(self, results: Iterable[RecordResult]) -> list[tuple[str, bytes]]:
        """Return segments to store, each with a new name. The outputs refer to them, and their objects are dropped.

        One segment, or several if it is long, for each account, node and topic. Its documents are sorted by the
        partition that they go to, so that a reader of that partition finds them next to each other.
        """
        if not self._fewest:
            return []
        packed: list[tuple[str, bytes]] = []
        now = datetime.now(UTC)
        for (account_id, node_id, topic), found in self._group(results).items():
            if len(found) < self._fewest[node_id]:
                continue
            for piece in _cut(self._sort(found, topic)):
                key = draw_segment_key(account_id, node_id, now)
                segment = build_segment(each.data for each in piece)
                for each, offset in zip(piece, segment.offsets, strict=True):
                    each.refer_to(key, offset)
                packed.append((key, segment.data))
        if packed:
            faults.reach(faults.SEGMENTS_BUILT)
        return packed

    def _group(self, results: Iterable[RecordResult]) -> dict[tuple[str, str, str], list[_Candidate]]:
        groups: dict[tuple[str, str, str], list[_Candidate]] = {}
        for result in results:
            for index, key in result.for_segments.items():
                data = result.objects.get(key)
                # What is not among the objects any more is stored already: records can be processed one at a time.
                if data is not None and len(data) < _LARGEST_DOCUMENT_BYTES:
                    _, account_id, _, file = key.split("/")
                    group = account_id, file.partition(".")[0], result.outputs[index].topic
                    groups.setdefault(group, []).append(_Candidate(result, index, key, data))
            result.for_segments.clear()
        return groups

    def _sort(self, found: list[_Candidate], topic: str) -> list[_Candidate]:
        partitions = self._partitions.get(topic, 1)
        if partitions == 1:
            return found
        return sorted(found, key=lambda each: partition_of(each.result.outputs[each.index].key or b"", partitions))


def _cut(candidates: Sequence[_Candidate]) -> Iterator[Sequence[_Candidate]]:
    """Cut documents into runs of about the size of a segment."""
    start = size_bytes = 0
    for index, each in enumerate(candidates):
        size_bytes += len(each.data)
        if size_bytes >= _SEGMENT_BYTES:
            yield candidates[start : index + 1]
            start, size_bytes = index + 1, 0
    if start < len(candidates):
        yield candidates[start:]

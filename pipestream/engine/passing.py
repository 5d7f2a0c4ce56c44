"""Pass documents on as they are, at nodes that only decide where documents go.

Such a node has no module, no filters and no mappings, and conditions over the document alone choose the edge. All that
``process_node`` does there is to add a hop to the history and to route. Here everything that does not depend on the
document is resolved once, and what the hop adds is merged into the stream instead of copying the stream.

Where the document came in its record and leaves in one, the merge is left to whoever parses the record: appended to a
message, another one of the same type is merged into it, so says the protobuf encoding. Fields are replaced, elements of
lists are added. Otherwise the results are the same as those of ``process_node`` to the byte.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from google.protobuf.unknown_fields import UnknownFieldSet

from pipestream.engine.carry import MESSAGE_TYPES, RecordResult
from pipestream.engine.decisions import note_decision
from pipestream.engine.history import PassRecorder
from pipestream.engine.intake import Entrance
from pipestream.engine.outputs import inline_limit_bytes, packs_documents, refer_to_document, write_inline
from pipestream.engine.process import Emission, Outcome, Services
from pipestream.graph.flow import destination_of
from pipestream.graph.model import NO_HYDRATION, Edge, Graph, Node
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.routing.quick import Quick
from pipestream.telemetry.tracing import TRACEPARENT, is_traced
from pipestream.topic_names import node_topic
from pipestream.wire import PipeStream


@dataclass(frozen=True, slots=True)
class _Way:
    """An edge, and what is the same for every document that takes it."""

    edge: Edge
    holds: Quick | None
    """Its condition; None: it always holds."""
    topic: str
    cluster_id: str
    decisions: tuple[str, ...]
    packs_documents: bool


class Passage:
    """Passes on the documents of one entrance. It is for one thread."""

    def __init__(
        self, entrance: Entrance, node: Node, ways: list[_Way], services: Services, *, came_inline: bool
    ) -> None:
        graph = entrance.graph
        self._node_id = node.node_id
        self._queue = node_topic(graph.cluster_id, node.node_id)
        self._from = ("pipestream.from", node.node_id.encode())
        self._ways = ways
        self._max_hops = graph.max_hops
        self._limits_bytes = {each.datasource_id: inline_limit_bytes(each) for each in graph.datasources}
        self._keeping_blobs = {each.datasource_id for each in graph.datasources if each.hydration.keep_blobs_as_ref}
        self._history = PassRecorder(node, graph, services)
        self._came_inline = came_inline
        # What ``admit`` changes in a stream, besides what changes with every hop.
        self._entered = PipeStream(metadata=entrance.entered.metadata).SerializeToString(deterministic=True)
        self._now = services.now
        self._meter = services.meter

    def pass_on(self, record: InputRecord, stream: PipeStream) -> RecordResult | None:
        """Return the result of a record whose document takes one edge; None for every other, whose stream is unchanged.

        :param stream: what ``take_in`` made of the record.
        """
        begun = time.perf_counter()
        if is_traced(header(record.headers, TRACEPARENT) or "") or not self._is_plain(stream):
            return None
        way = self._choose(stream)
        if way is None:
            return None
        stream_id = stream.stream_id
        key = (stream.document.doc_id or stream_id).encode()
        added = self._history.record(stream, self._now())
        added.current_node_id, added.cluster_id = way.edge.to_node_id, way.cluster_id
        limit_bytes = self._limits_bytes.get(stream.metadata.datasource_id)
        objects: dict[str, bytes] = {}
        value = self._append(record, stream, added, limit_bytes)
        if value is None:
            stream.metadata.ClearField("last_processed_at")  # so that a zero in the new time replaces the old one, too
            stream.MergeFrom(added)
            value = write_inline(stream, limit_bytes)
        if value is None:
            value, objects = refer_to_document(stream, self._node_id, is_failed=False)
        output = OutputRecord(way.topic, key, value, (("pipestream.stream", stream_id.encode()), self._from))
        edge_id = way.edge.edge_id
        self._meter.processed(self._queue, "success", [time.perf_counter() - begun])
        self._meter.sent(way.topic, MESSAGE_TYPES[Outcome.EDGE], edge_id, [output.size_bytes])
        self._meter.ended(succeeded=True)
        result = RecordResult(record, [output], objects, (edge_id,), way.decisions)
        result.document_keys.update(enumerate(objects))
        if way.packs_documents:
            result.for_segments.update(enumerate(objects))
        return result

    def _append(
        self, record: InputRecord, stream: PipeStream, added: PipeStream, limit_bytes: int | None
    ) -> bytes | None:
        """Return a record's value with what a hop adds; None if its document leaves another way than it came."""
        if limit_bytes is None or not self._came_inline or record.value is None:
            return None
        if not self._history.last_processed_at.nanos:
            return None  # A zero is not written, so merging would leave the nanoseconds from before.
        value = record.value + self._entered + added.SerializeToString(deterministic=True)
        return value if len(value) <= limit_bytes or stream.document.ByteSize() <= limit_bytes else None

    def _is_plain(self, stream: PipeStream) -> bool:
        """Tell whether nothing in a stream asks for more than to pass it on, or would not survive a hop."""
        metadata = stream.metadata
        return not (
            stream.hop_count >= self._max_hops
            or metadata.datasource_id in self._keeping_blobs
            or metadata.HasField("ingestion_config")
            or stream.HasField("node_processing_config")
            or len(UnknownFieldSet(stream))
        )

    def _choose(self, stream: PipeStream) -> _Way | None:
        """Return the one edge that a document takes; None: it takes several, or none."""
        document, chosen = stream.document, None
        for way in self._ways:
            if way.holds is None or way.holds(stream, document):
                if chosen is not None:
                    return None
                chosen = way
        return chosen


def find_passage(entrance: Entrance, services: Services, *, came_inline: bool) -> Passage | None:
    """Return what passes documents of an entrance on; None if its node does more with them than that.

    :param came_inline: whether all documents were in their records.
    """
    graph = entrance.graph
    node = graph.node_by_id.get(entrance.node_id)
    if node is None or services.progress is not None or not _only_routes(node):
        return None
    found = services.conditions.ways_of_documents(node.node_id)
    if found is None or any(_is_special(edge, graph) for edge, _ in found):
        return None
    ways = [_way(node, edge, holds, graph, services) for edge, holds in found]
    return Passage(entrance, node, ways, services, came_inline=came_inline)


def _only_routes(node: Node) -> bool:
    does_work = node.module or node.engine or node.filters or node.pre_mappings or node.post_mappings
    return not (does_work or node.is_end or node.parser or node.speaks_envelopes or node.hydration != NO_HYDRATION)


def _is_special(edge: Edge, graph: Graph) -> bool:
    """Tell whether an edge leads on in the same task or to another cluster, or has a limit of its own."""
    return bool(edge.is_cross_cluster or edge.max_hops) or destination_of(edge, graph).is_fused


def _way(node: Node, edge: Edge, holds: Quick | None, graph: Graph, services: Services) -> _Way:
    decisions: list[str] = []
    is_decided = node.node_id in services.conditions.deciding
    note_decision(Emission(Outcome.EDGE, PipeStream(), node.node_id, edge=edge, is_decided=is_decided), decisions)
    return _Way(
        edge=edge,
        holds=holds,
        topic=destination_of(edge, graph).topic,
        cluster_id=edge.to_cluster_id or graph.cluster_id,
        decisions=tuple(decisions),
        packs_documents=packs_documents(node, edge),
    )

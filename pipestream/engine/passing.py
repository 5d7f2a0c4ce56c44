"""Pass documents on as they are, at nodes that only decide where documents go.

Such a node has no module, no filters and no mappings, and conditions over the document alone choose the edge. All that
``process_node`` does there is to add a hop to the history and to route. Here everything that does not depend on the
document is resolved once, and what the hop adds is merged into the stream instead of copying the stream.
The results are the same as those of ``process_node`` to the byte. Documents that came in their records and leave in
records need even less: see ``inline_passing.py``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
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
class Way:
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

    def __init__(self, entrance: Entrance, ways: Sequence[Way], services: Services) -> None:
        graph = entrance.graph
        node = graph.node_by_id[entrance.node_id]
        self._node_id = node.node_id
        self._queue = node_topic(graph.cluster_id, node.node_id)
        self._from = ("pipestream.from", node.node_id.encode())
        self._ways = ways
        self._max_hops = graph.max_hops
        self._limits_bytes = {each.datasource_id: inline_limit_bytes(each) for each in graph.datasources}
        self._keeping_blobs = {each.datasource_id for each in graph.datasources if each.hydration.keep_blobs_as_ref}
        self._history = PassRecorder(node, graph, services)
        self._now = services.now
        self._meter = services.meter

    def pass_on(self, record: InputRecord, stream: PipeStream) -> RecordResult | None:
        """Return the result of a record whose document takes one edge; None for every other, whose stream is unchanged.

        :param stream: what ``take_in`` made of the record.
        """
        begun = time.perf_counter()
        if is_traced(header(record.headers, TRACEPARENT) or "") or not self._is_plain(stream):
            return None
        way = choose_way(self._ways, stream)
        if way is None:
            return None
        stream_id = stream.stream_id
        key = (stream.document.doc_id or stream_id).encode()
        added = self._history.record(stream, self._now())
        added.current_node_id, added.cluster_id = way.edge.to_node_id, way.cluster_id
        limit_bytes = self._limits_bytes.get(stream.metadata.datasource_id)
        objects: dict[str, bytes] = {}
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

    def _is_plain(self, stream: PipeStream) -> bool:
        is_too_far = stream.hop_count >= self._max_hops
        return not is_too_far and stream.metadata.datasource_id not in self._keeping_blobs and is_plain(stream)


def is_plain(stream: PipeStream) -> bool:
    """Tell whether nothing in a stream asks for more than to pass it on, or would not survive a hop."""
    return not (
        stream.metadata.HasField("ingestion_config")
        or stream.HasField("node_processing_config")
        or len(UnknownFieldSet(stream))
    )


def choose_way(ways: Sequence[Way], stream: PipeStream) -> Way | None:
    """Return the one edge that a document takes; None: it takes several, or none."""
    document, chosen = stream.document, None
    for way in ways:
        if way.holds is None or way.holds(stream, document):
            if chosen is not None:
                return None
            chosen = way
    return chosen


def find_passage(entrance: Entrance, services: Services) -> Passage | None:
    """Return what passes documents of an entrance on; None if its node does more with them than that."""
    ways = find_ways(entrance, services)
    return None if ways is None else Passage(entrance, ways, services)


def find_ways(entrance: Entrance, services: Services) -> list[Way] | None:
    """Return the edges out of an entrance's node; None if the node does more with documents than to pass them on."""
    graph = entrance.graph
    node = graph.node_by_id.get(entrance.node_id)
    if node is None or services.progress is not None or not _only_routes(node):
        return None
    found = services.conditions.ways_of_documents(node.node_id)
    if found is None or any(_is_special(edge, graph) for edge, _ in found):
        return None
    return [_way(node, edge, holds, graph, services) for edge, holds in found]


def _only_routes(node: Node) -> bool:
    does_work = node.module or node.engine or node.filters or node.pre_mappings or node.post_mappings
    return not (does_work or node.is_end or node.parser or node.speaks_envelopes or node.hydration != NO_HYDRATION)


def _is_special(edge: Edge, graph: Graph) -> bool:
    """Tell whether an edge leads on in the same task or to another cluster, or has a limit of its own."""
    return bool(edge.is_cross_cluster or edge.max_hops) or destination_of(edge, graph).is_fused


def _way(node: Node, edge: Edge, holds: Quick | None, graph: Graph, services: Services) -> Way:
    decisions: list[str] = []
    is_decided = node.node_id in services.conditions.deciding
    note_decision(Emission(Outcome.EDGE, PipeStream(), node.node_id, edge=edge, is_decided=is_decided), decisions)
    return Way(
        edge=edge,
        holds=holds,
        topic=destination_of(edge, graph).topic,
        cluster_id=edge.to_cluster_id or graph.cluster_id,
        decisions=tuple(decisions),
        packs_documents=packs_documents(node, edge),
    )

"""Pass on documents that come in a call and leave in a record, by appending to their bytes what the hop changes.

As a drain does with documents that come in their records (``engine/inline_passing.py``): the stream of the call is
read, and neither changed nor written again. Where there is more to do than that, there is no result, and the document
takes the longer way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pipestream.engine.carry import MESSAGE_TYPES, RecordResult
from pipestream.engine.history import PassRecorder
from pipestream.engine.inline_passing import HopBytes
from pipestream.engine.intake import Arrival, Entrance
from pipestream.engine.outputs import inline_limit_bytes
from pipestream.engine.passing import Way, choose_way, find_ways, is_plain
from pipestream.engine.process import Outcome, Services
from pipestream.ids import derive_stream_id
from pipestream.kafka.records import OutputRecord, header
from pipestream.telemetry.tracing import TRACEPARENT, is_traced
from pipestream.topic_names import node_topic
from pipestream.wire import PipeStream


class InlinePassage:
    """Passes on the documents of one datasource. It is for one thread."""

    def __init__(self, entrance: Entrance, ways: Sequence[Way], services: Services, limit_bytes: int) -> None:
        """:param limit_bytes: how large a document may be to stay in its record."""
        graph = entrance.graph
        node = graph.node_by_id[entrance.node_id]
        self._lane = entrance.lane
        self._queue = node_topic(graph.cluster_id, node.node_id)
        self._from = ("pipestream.from", node.node_id.encode())
        self._accounts = ("", entrance.entered.metadata.account_id)
        self._limit_bytes = limit_bytes
        self._ways = ways
        recorder = PassRecorder(node, graph, services)
        # What ``admit`` changes in a stream, besides what changes with every hop.
        entered = PipeStream(metadata=entrance.entered.metadata).SerializeToString(deterministic=True)
        self._hops = {way.edge.edge_id: HopBytes(recorder, way, entered) for way in ways}
        self._now = services.now
        self._meter = services.meter

    def pass_on(self, arrival: Arrival, stream: PipeStream) -> RecordResult | None:
        """Return the result of a document that takes one edge and stays in its record; None for every other.

        :param stream: what the record of the arrival says. It is not changed.
        """
        begun = time.perf_counter()
        record = arrival.record
        if not stream.HasField("document") or stream.metadata.account_id not in self._accounts:
            return None
        if is_traced(header(record.headers, TRACEPARENT) or "") or not is_plain(stream):
            return None
        way = choose_way(self._ways, stream)
        if way is None:
            return None
        name, document_id = derive_stream_id(self._lane, arrival.origin).encode(), stream.document.doc_id.encode()
        edge_id = way.edge.edge_id
        added = self._hops[edge_id].write(0, name, document_id, self._now())
        if added is None:
            return None
        value = (record.value or b"") + added
        if len(value) > self._limit_bytes and stream.document.ByteSize() > self._limit_bytes:
            return None
        output = OutputRecord(way.topic, document_id or name, value, (("pipestream.stream", name), self._from))
        self._meter.processed(self._queue, "success", [time.perf_counter() - begun])
        self._meter.sent(way.topic, MESSAGE_TYPES[Outcome.EDGE], edge_id, [output.size_bytes])
        self._meter.ended(succeeded=True)
        return RecordResult(record, [output], {}, (edge_id,), way.decisions)


def find_inline_passage(entrance: Entrance, services: Services) -> InlinePassage | None:
    """Return what passes on the documents of a datasource in their records; None if more is done with them."""
    source = entrance.graph.datasource_by_id[entrance.datasource_id]
    limit_bytes = inline_limit_bytes(source)
    if limit_bytes is None or source.hydration.keep_blobs_as_ref or entrance.graph.max_hops < 1:
        return None
    ways = find_ways(entrance, services)
    return None if ways is None else InlinePassage(entrance, ways, services, limit_bytes)

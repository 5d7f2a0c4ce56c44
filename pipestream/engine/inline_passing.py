"""Pass on documents that travel in their records, by appending to a record's bytes what the hop changes.

Appended to a message, another one of the same type is merged into it, so says the protobuf encoding: fields are
replaced, elements of lists are added. So the stream is parsed, to check it and to choose its edge, and never changed or
written. What it says afterwards is the same as after ``take_in`` and ``Passage.pass_on``. Where there is more to do
than that, there is no result, and the caller takes the stream in.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence

from google.protobuf.message import DecodeError

from pipestream.engine.carry import MESSAGE_TYPES, RecordResult
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.history import PassRecorder
from pipestream.engine.intake import Entrance, admit
from pipestream.engine.outputs import inline_limit_bytes
from pipestream.engine.passing import Way, choose_way, find_ways, is_plain
from pipestream.engine.process import Outcome, Services
from pipestream.errors import PipestreamError
from pipestream.ids import stream_ids_of
from pipestream.kafka.records import InputRecord, OutputRecord
from pipestream.telemetry.tracing import TRACEPARENT, is_traced
from pipestream.topic_names import node_topic
from pipestream.wire import PipeStream

log = logging.getLogger(__name__)

# A record with such a header may be for another graph, or has a trace.
_MORE_TO_DO = frozenset({FOR_GRAPH, TRACEPARENT})
# How old the time in a history may be. To write a hop anew for each document doubles the time that passing it on takes.
_FRESH_S = 0.005
_DIFFERENCE = b"[%c]+" % (ord("a") ^ ord("b"))

PassedOn = tuple[Sequence[RecordResult], Sequence[tuple[InputRecord, PipeStream | None]]]
"""The results of the records that were passed on, and the other records with what each says, if that is known."""


class InlinePassage:
    """Passes on the documents of one entrance. It is for one thread, and for one call."""

    def __init__(self, entrance: Entrance, ways: Sequence[Way], services: Services, topic_id: str) -> None:
        graph = entrance.graph
        node = graph.node_by_id[entrance.node_id]
        self._entrance = entrance
        self._topic_id = topic_id
        self._queue = node_topic(graph.cluster_id, node.node_id)
        self._from = ("pipestream.from", node.node_id.encode())
        self._max_hops = graph.max_hops
        self._accounts = ("", entrance.entered.metadata.account_id)
        self._limits_bytes = {each.datasource_id: inline_limit_bytes(each) for each in graph.datasources}
        self._keeping_blobs = {each.datasource_id for each in graph.datasources if each.hydration.keep_blobs_as_ref}
        self._ways = ways
        recorder = PassRecorder(node, graph, services)
        # What ``admit`` changes in a stream, besides what changes with every hop.
        entered = PipeStream(metadata=entrance.entered.metadata).SerializeToString(deterministic=True)
        self._hops = {way.edge.edge_id: HopBytes(recorder, way, entered) for way in ways}
        self._ids: dict[int, Callable[[int], str]] = {}
        self._now = services.now
        self._meter = services.meter
        self._seconds: list[float] = []
        self._sizes_bytes: dict[str, list[int]] = {way.edge.edge_id: [] for way in ways}

    def pass_on(self, records: Sequence[InputRecord]) -> PassedOn | None:
        """Pass on the documents that take one edge and stay in their records.

        :return: None, and nothing was done, if one of the records does not have its document with it.
        """
        passed: list[RecordResult] = []
        left: list[tuple[InputRecord, PipeStream | None]] = []
        for record in records:
            begun = time.perf_counter()
            try:
                # One by one, because a stream is large, and still in the processor's cache when it was just parsed.
                stream = PipeStream.FromString(record.value or b"")
            except DecodeError:
                return None
            if not stream.HasField("document"):
                return None
            try:
                result = self._pass_on(record, stream)
            except Exception:
                # As in ``follow``, a bug must not stop the records behind this one.
                log.exception("%s offset %d could not be passed on", record.topic, record.offset)
                result = None
            if result is None:
                left.append((record, stream))
            else:
                passed.append(result)
                self._seconds.append(time.perf_counter() - begun)
        self._count()
        return passed, left

    def _pass_on(self, record: InputRecord, stream: PipeStream) -> RecordResult | None:
        """Return the result of a record; None if there is more to do than to append to it.

        :param stream: what the record says. It is not changed.
        """
        if record.headers and any(name in _MORE_TO_DO for name, _ in record.headers):
            return None
        datasource_id, hops = self._entrance.datasource_id, 0
        if not datasource_id:
            datasource_id, hops = stream.metadata.datasource_id, stream.hop_count
        limit_bytes = self._limits_bytes.get(datasource_id)
        if limit_bytes is None or hops >= self._max_hops or datasource_id in self._keeping_blobs:
            return None
        if not is_plain(stream) or (way := choose_way(self._ways, stream)) is None:
            return None
        stream_id = self._identify(record, stream)
        if not stream_id:
            return None
        name, document_id, edge_id = stream_id.encode(), stream.document.doc_id.encode(), way.edge.edge_id
        added = self._hops[edge_id].write(hops, name, document_id, self._now())
        if added is None:
            return None
        value = (record.value or b"") + added
        if len(value) > limit_bytes and stream.document.ByteSize() > limit_bytes:
            return None
        output = OutputRecord(way.topic, document_id or name, value, (("pipestream.stream", name), self._from))
        self._sizes_bytes[edge_id].append(output.size_bytes)
        return RecordResult(record, [output], {}, (edge_id,), way.decisions)

    def _count(self) -> None:
        if not self._seconds:
            return
        self._meter.processed(self._queue, "success", self._seconds)
        self._meter.ended(len(self._seconds), succeeded=True)
        for way in self._ways:
            if sizes_bytes := self._sizes_bytes[way.edge.edge_id]:
                self._meter.sent(way.topic, MESSAGE_TYPES[Outcome.EDGE], way.edge.edge_id, sizes_bytes)

    def _identify(self, record: InputRecord, stream: PipeStream) -> str:
        """Return the id that a stream has in the graph; empty if it cannot enter here, and ``admit`` says why."""
        entrance = self._entrance
        if not entrance.datasource_id:
            try:
                admit(stream, entrance, "")  # which changes nothing in a stream that has its identity
            except PipestreamError:
                return ""
            return stream.stream_id
        if stream.metadata.account_id not in self._accounts:
            return ""
        ids = self._ids.get(record.partition)
        if ids is None:
            ids = stream_ids_of(entrance.lane, self._topic_id, record.topic, record.partition)
            self._ids[record.partition] = ids
        return ids(record.offset)


class HopBytes:
    """Writes what a hop adds to the streams that take one edge.

    But for the ids, it is the same for all streams of a moment. So it is written with other ids of the same lengths,
    cut where they are, and put together with the ids of each stream.
    """

    def __init__(self, recorder: PassRecorder, way: Way, entered: bytes) -> None:
        self._recorder = recorder
        self._way = way
        self._entered = entered
        self._pieces: dict[tuple[int, int, int], list[bytes] | None] = {}
        self._written_at = 0.0

    def write(self, hops: int, stream_id: bytes, document_id: bytes, now: float) -> bytes | None:
        """Return what to append; None where appending cannot say it."""
        if not 0 <= now - self._written_at < _FRESH_S:
            self._pieces.clear()
            self._written_at = now
        lengths = hops, len(stream_id), len(document_id)
        try:
            pieces = self._pieces[lengths]
        except KeyError:
            pieces = self._pieces[lengths] = self._cut(*lengths)
        if pieces is None:
            return None
        # Written in the order of field numbers: the stream's id, and in the history the document's and the stream's.
        if len(pieces) == 3:
            return stream_id.join(pieces)  # the document has no id
        first, second, third, last = pieces
        return b"".join((first, stream_id, second, document_id, third, stream_id, last))

    def _cut(self, hops: int, *lengths: int) -> list[bytes] | None:
        one, other = self._write("a", hops, *lengths), self._write("b", hops, *lengths)
        if not self._recorder.last_processed_at.nanos:
            return None  # A zero is not written, so merging would leave the nanoseconds from before.
        # Only bytes of the ids differ, and each of them by the same bits.
        differing = (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))
        cuts = [0, *(place for found in re.finditer(_DIFFERENCE, differing) for place in found.span()), len(one)]
        first, *others = (one[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=True))
        return [self._entered + first, *others]

    def _write(self, letter: str, hops: int, id_length: int, document_id_length: int) -> bytes:
        stream = PipeStream(stream_id=letter * id_length, hop_count=hops)
        stream.document.doc_id = letter * document_id_length
        added = self._recorder.record(stream, self._written_at)
        added.current_node_id, added.cluster_id = self._way.edge.to_node_id, self._way.cluster_id
        return added.SerializeToString(deterministic=True)


def find_inline_passage(entrance: Entrance, services: Services, topic_id: str) -> InlinePassage | None:
    """Return what passes on documents that travel in their records; None if a node does more with them than that."""
    datasources = entrance.graph.datasources
    come_from = [each for each in datasources if entrance.datasource_id in ("", each.datasource_id)]
    if entrance.renames or is_traced() or all(inline_limit_bytes(each) is None for each in come_from):
        return None
    ways = find_ways(entrance, services)
    return None if ways is None else InlinePassage(entrance, ways, services, topic_id)

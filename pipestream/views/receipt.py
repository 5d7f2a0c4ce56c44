"""The receipt of a document: every record, range, hop, dead letter and object that it met in a graph, with times.

Nothing keeps an index of documents. Its records are found by reading the graph's topics, whose keys are document ids;
the ledger says which run drained them, their streams have the history of hops, and the catalogue says when it came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipestream.arrow import to_rows
from pipestream.dead_letters import dead_letter_topics, read_letter
from pipestream.dead_letters.letter import stream_of
from pipestream.dead_letters.log import DecisionLog
from pipestream.documents.references import place_of
from pipestream.drain.live_lane import LiveLane
from pipestream.drain.range_task import transactional_id
from pipestream.errors import PipestreamError
from pipestream.graph.flow import destination_of, topic_targets
from pipestream.ids import check_key_part
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import InputRecord, OffsetRange, header
from pipestream.kafka.scan import find_held, scan
from pipestream.topics.required import Purpose, required_topics
from pipestream.views.letters import letter_values

if TYPE_CHECKING:
    from pipestream.documents.catalogue import Catalogue, Catalogued
    from pipestream.graph.model import Graph
    from pipestream.ledger import Ledger
    from pipestream.settings import Settings
    from pipestream.wire import PipeStream

MOST_OFFSETS = 300_000
"""Offsets that are read for one receipt: a few seconds' worth."""
_MOST_RECORDS = 200
_CLOCKS = timedelta(minutes=5)
"""How far the clocks of producers and of PostgreSQL may differ."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A document as it was uploaded to a datasource."""

    datasource: str
    version: int
    title: str
    mime_type: str
    size_bytes: int
    object_key: str
    created_at: datetime | None
    updated_at: datetime | None
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class DrainedRange:
    """The range that a record was drained in."""

    lane: str
    start: int
    end: int
    kind: str
    run_id: str
    plan_id: str
    graph_hash: str
    graph_version: int | None
    holder: str
    token: int
    transactional_id: str
    """Under which its outputs and its offsets were committed together; empty for a backfill."""
    entered_at: datetime


@dataclass(frozen=True, slots=True)
class ReceiptRecord:
    """A record of the document in a topic."""

    topic: str
    partition: int
    offset: int
    at: datetime
    kind: str
    """``intake``, ``node``, ``override``, ``bridge in``, ``bridge out``, ``end`` or ``dead letters``."""
    stream_id: str
    from_node: str
    edge: str
    node: str
    object_key: str
    """Where its document is stored; empty: in the record."""
    ranges: tuple[DrainedRange, ...]
    """Those that it was drained in, backfills included; empty while it waits, or at an end."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A node that the document was processed at, from the history of its streams."""

    stream_id: str
    hop: int
    node: str
    module: str
    status: str
    graph_hash: str
    graph_version: int | None
    started_at: datetime | None
    ended_at: datetime | None
    instance: str
    error: str


@dataclass(frozen=True, slots=True)
class ReceiptObject:
    """An object in which a document of it is stored."""

    key: str
    node: str
    """The node that stored it; empty: as it was uploaded."""
    stream_id: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """Everything that a document met."""

    doc_id: str
    complete: bool
    note: str
    """What was left out, if anything."""
    catalogue: tuple[CatalogueEntry, ...]
    records: tuple[ReceiptRecord, ...]
    hops: tuple[Hop, ...]
    dead_letters: tuple[dict[str, Any], ...]
    objects: tuple[ReceiptObject, ...]


def find_catalogued(catalogue: Catalogue, graph: Graph, doc_id: str) -> list[Catalogued]:
    """Return the rows of a document in the graph's datasources.

    :raises IdInvalid: it cannot be the id of a document.
    """
    check_key_part(doc_id, "document id")
    places = [(source.account_id, source.datasource_id) for source in graph.datasources]
    found = (catalogue.find(account, datasource, doc_id) for account, datasource in places)
    return [row for row in found if row is not None]


def make_receipt(
    graph: Graph,
    doc_id: str,
    catalogued: Sequence[Catalogued],
    versions: Mapping[str, int],
    settings: Settings,
    ledger: Ledger,
) -> Receipt:
    """Return the receipt of a document.

    :param catalogued: what ``find_catalogued`` found.
    :param versions: the graph's versions by their hashes.
    :raises TransientError: Kafka, the ledger or the lease store did not answer.
    """
    ranges, is_whole = _ranges_to_read(graph, catalogued, settings)
    found = [record for record in scan(settings, ranges, committed=True) if record.key == doc_id.encode()]
    found.sort(key=lambda record: (record.timestamp_ms, record.topic, record.partition, record.offset))
    notes = [] if is_whole else [f"topics hold more than the {MOST_OFFSETS} newest offsets that were read"]
    if len(found) > _MOST_RECORDS:
        notes.append(f"it has {len(found)} records, of which the first {_MOST_RECORDS} are shown")
    found = found[:_MOST_RECORDS]
    streams = [(record, stream) for record in found if (stream := stream_of(record)) is not None]
    letters = set(dead_letter_topics([graph], settings))
    names = _Names(graph, versions, settings)
    entries = _Entries(ledger, graph, found, names)
    records = tuple(names.record(record, entries) for record in found if record.topic not in letters)
    return Receipt(
        doc_id=doc_id,
        complete=not notes,
        note="; ".join(notes),
        catalogue=tuple(map(_entry, catalogued)),
        records=records,
        hops=_hops((stream for _, stream in streams), names),
        dead_letters=_letters([record for record in found if record.topic in letters], settings),
        objects=_objects(catalogued, (stream for _, stream in streams)),
    )


def _ranges_to_read(
    graph: Graph, catalogued: Sequence[Catalogued], settings: Settings
) -> tuple[list[OffsetRange], bool]:
    """Return what may hold records of the document, and whether that is all of it.

    It cannot be in records that are older than the document.
    """
    held = find_held(settings, [spec.name for spec in required_topics(graph, settings)])
    born = min((row.created_at for row in catalogued if row.created_at), default=None)
    if born is not None:
        moment = max(0, int((born - _CLOCKS).timestamp() * 1000))
        places = [(each.topic, each.partition) for each in held]
        (starts,) = Broker(settings).offsets_over_time(places, [moment])
        held = [
            replace(each, start=max(each.start, start))
            for each in held
            if (start := starts.get((each.topic, each.partition), each.end)) < each.end
        ]
    most = MOST_OFFSETS // max(1, len(held))
    is_whole = sum(map(len, held)) <= MOST_OFFSETS
    return (held if is_whole else [replace(each, start=max(each.start, each.end - most)) for each in held]), is_whole


class _Names:
    """What the places of a graph are called."""

    def __init__(self, graph: Graph, versions: Mapping[str, int], settings: Settings) -> None:
        self._targets = topic_targets(graph)
        self._purposes = {spec.name: spec.purpose for spec in required_topics(graph, settings)}
        self._edges: dict[tuple[str, str], str] = {}
        for edge in graph.edges:
            topic = destination_of(edge, graph).topic
            self._edges.setdefault((edge.from_node_id, topic), edge.edge_id)
            self._targets.setdefault(topic, edge.to_node_id)
        self._versions = versions
        self._group = LiveLane.of(graph).group
        self._graph = graph

    def version(self, digest: str) -> int | None:
        """Return the number of a version by its hash, or by the start of it."""
        if not digest:
            return None
        return next((number for each, number in self._versions.items() if each.startswith(digest)), None)

    def transaction(self, lane: str, topic: str, partition: int) -> str:
        return transactional_id(self._group, topic, partition) if lane == self._graph.graph_id else ""

    def record(self, record: InputRecord, entries: _Entries) -> ReceiptRecord:
        stream = stream_of(record)
        from_node = header(record.headers, "pipestream.from") or ""
        purpose = self._purposes.get(record.topic, Purpose.NODE)
        return ReceiptRecord(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            at=datetime.fromtimestamp(max(0, record.timestamp_ms) / 1000, UTC),
            kind=purpose.value,
            stream_id=stream.stream_id if stream else "",
            from_node=from_node,
            edge=self._edges.get((from_node, record.topic), ""),
            node=self._targets.get(record.topic, ""),
            object_key=_object_key(stream),
            ranges=entries.around(record),
        )


class _Entries:
    """The ledger's entries around some records. Only these are read: a graph may have hundreds of thousands."""

    def __init__(self, ledger: Ledger, graph: Graph, records: Sequence[InputRecord], names: _Names) -> None:
        columns = ["lane", "topic", "partition", "start", "end", "kind", "run_id", "plan_id", "graph_hash"]
        offsets: dict[str, list[int]] = {}
        for record in records:
            offsets.setdefault(record.topic, []).append(record.offset)
        around = {topic: (min(found), max(found)) for topic, found in offsets.items()}
        self._table: pa.Table = ledger.entries_table(
            [*columns, "holder", "token", "entered_at"], graph_id=graph.graph_id, around=around
        )
        self._names = names

    def around(self, record: InputRecord) -> tuple[DrainedRange, ...]:
        table = self._table
        is_here = pc.and_(pc.equal(table["topic"], record.topic), pc.equal(table["partition"], record.partition))
        is_around = pc.and_(
            pc.less_equal(table["start"], record.offset),
            pc.greater(table["end"], record.offset),
        )
        rows = to_rows(table.filter(pc.and_(is_here, is_around)).sort_by("entered_at"))
        return tuple(
            DrainedRange(
                graph_version=self._names.version(row["graph_hash"]),
                transactional_id=self._names.transaction(row["lane"], row.pop("topic"), row.pop("partition")),
                **row,
            )
            for row in rows
        )


def _hops(streams: Iterable[PipeStream], names: _Names) -> tuple[Hop, ...]:
    """Return the hops of all streams, each once: a stream carries the history of what came before it."""
    found: dict[tuple[Any, ...], Hop] = {}
    for stream in streams:
        for each in stream.metadata.history:
            ended_at = each.end_time.ToDatetime(UTC) if each.HasField("end_time") else None
            found[each.stream_id, each.hop_number, each.node_id, ended_at] = Hop(
                stream_id=each.stream_id,
                hop=each.hop_number,
                node=each.node_id,
                module=each.module_id,
                status=each.status,
                graph_hash=each.graph_hash,
                graph_version=names.version(each.graph_hash),
                started_at=each.start_time.ToDatetime(UTC) if each.HasField("start_time") else None,
                ended_at=ended_at,
                instance=each.service_instance_id,
                error=each.error_info.error_message if each.HasField("error_info") else "",
            )
    begin = datetime.fromtimestamp(0, UTC)
    return tuple(sorted(found.values(), key=lambda hop: (hop.ended_at or begin, hop.hop)))


def _letters(records: Sequence[InputRecord], settings: Settings) -> tuple[dict[str, Any], ...]:
    if not records:
        return ()
    decisions, broker = DecisionLog(settings).read(), Broker(settings)
    ids = {topic: broker.identify(topic).topic_id for topic in {record.topic for record in records}}
    return tuple(
        letter_values(
            read_letter(record, decisions.of_partition(ids[record.topic], record.partition).get(record.offset))
        )
        for record in records
    )


def _objects(catalogued: Iterable[Catalogued], streams: Iterable[PipeStream]) -> tuple[ReceiptObject, ...]:
    found = {row.object_key: ReceiptObject(row.object_key, "", "") for row in catalogued}
    for stream in streams:
        key = _object_key(stream)
        if key and key not in found:
            node = stream.document_ref.source_node_id
            found[key] = ReceiptObject(key, node, stream.stream_id)
    return tuple(found.values())


def _object_key(stream: PipeStream | None) -> str:
    try:
        return str(place_of(stream)) if stream is not None and stream.HasField("document_ref") else ""
    except PipestreamError:
        return ""


def _entry(row: Catalogued) -> CatalogueEntry:
    return CatalogueEntry(
        row.datasource_id,
        row.version,
        row.title,
        row.mime_type,
        row.size_bytes,
        row.object_key,
        row.created_at,
        row.updated_at,
        row.published_at,
    )

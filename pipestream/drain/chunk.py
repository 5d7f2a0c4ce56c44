"""Turn a chunk of records into the objects and records that come of it.

Nothing is sent here: the caller stores the objects, then sends the records and the offsets in one transaction.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from pipestream.documents.references import key_of, stream_key
from pipestream.documents.store import ObjectStore
from pipestream.drain.dead_letters import dead_letter
from pipestream.drain.model import RangeTask
from pipestream.drain.records import InputRecord, OutputRecord
from pipestream.engine.emission import Emission, Outcome
from pipestream.engine.follow import follow
from pipestream.engine.process import Services, fail
from pipestream.errors import DocumentMissing, PipestreamError, RecordInvalid
from pipestream.graph.model import Graph
from pipestream.ids import check_key_part, derive_child_id, derive_stream_id
from pipestream.ledger.model import Tally
from pipestream.settings import Settings
from pipestream.topics.names import dead_letter_topic, edge_topic, intake_dead_letter_topic, node_topic
from pipestream.wire import DocumentReference, PipeDoc, PipeStream


@dataclass(slots=True)
class _Counts:
    """What became of the records of one partition."""

    records: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    dead_letters: int = 0


@dataclass(slots=True)
class ChunkResult:
    """What a chunk came to."""

    objects: dict[str, bytes] = field(default_factory=dict)
    outputs: list[OutputRecord] = field(default_factory=list)
    counts: defaultdict[int, _Counts] = field(default_factory=lambda: defaultdict(_Counts))
    """By partition, since each partition's range has an entry of its own."""
    failed: int = 0
    last_error: str = ""

    def tally(self, partition: int) -> Tally:
        """Return what became of a partition's records."""
        counts = self.counts[partition]
        return Tally(counts.records, dict(counts.sent), counts.dead_letters)


@dataclass(frozen=True, slots=True)
class ChunkProcessor:
    """Everything one task needs to process its chunks."""

    task: RangeTask
    graph: Graph
    graph_hash: str
    services: Services
    store: ObjectStore
    settings: Settings

    def process(self, records: Sequence[InputRecord]) -> ChunkResult:
        """Decode, hydrate and process records, in order."""
        result = ChunkResult()
        for record in records:
            result.counts[record.partition].records += 1
        records = [record for record in records if self._is_wanted(record)]
        for record, stream in zip(records, self._hydrate(records), strict=True):
            if isinstance(stream, PipestreamError):
                self._add_failure(result, record, stream, attempts=1)
                continue
            hops = stream.hop_count
            failed = False
            for emission in follow(stream, self.graph, self.services, self.settings):
                # A failed stream keeps the hops it came with, so only one that failed at the record's own node
                # still has those of the record.
                self._add(result, record, emission, is_entry=emission.stream.hop_count == hops)
                failed = failed or emission.error is not None
            result.failed += failed
        return result

    def _hydrate(self, records: Sequence[InputRecord]) -> list[PipeStream | PipestreamError]:
        """Return each record's stream with its document inline, or why there is none. One fetch for all."""
        streams: list[PipeStream | PipestreamError] = []
        wanted: list[tuple[int, str]] = []
        for index, record in enumerate(records):
            try:
                stream = self._decode(record)
                key = "" if stream.HasField("document") else key_of(stream)
                if self.task.datasource_id:
                    self._enter_graph(stream, record)
                elif not self.task.is_live:
                    # The live run's objects and children have names derived from this id; ours must differ.
                    stream.stream_id = derive_child_id(stream.stream_id, self.task.node_id, f"lane/{self.task.lane}")
                check_key_part(stream.metadata.account_id, "account id")
                check_key_part(stream.stream_id, "stream id")
                streams.append(stream)
                if key:
                    wanted.append((index, key))
            except PipestreamError as error:
                streams.append(error)
        found = self.store.get_many([key for _, key in wanted])
        for (index, key), data in zip(wanted, found, strict=True):
            stream_to_fill = streams[index]
            assert isinstance(stream_to_fill, PipeStream)
            try:
                _put_document(stream_to_fill, key, data)
            except PipestreamError as error:
                streams[index] = error
        return streams

    def _is_wanted(self, record: InputRecord) -> bool:
        """A backfill of some documents passes over the others; the key of a record is its document's id."""
        return not self.task.doc_ids or (record.key or b"").decode("utf-8", "replace") in self.task.doc_ids

    def _decode(self, record: InputRecord) -> PipeStream:
        if record.value is None:
            raise RecordInvalid("the record has no value; a PipeStream was expected")
        try:
            stream = PipeStream.FromString(record.value)
        except DecodeError as error:
            raise RecordInvalid(f"the record's value is not a PipeStream: {error}") from None
        if stream.WhichOneof("document_payload") is None:
            raise RecordInvalid("the stream has neither a document nor a reference to one")
        if self.task.datasource_id:
            stream.current_node_id = self.task.node_id
        elif not stream.stream_id:
            raise RecordInvalid("a stream on a node's topic needs a stream_id")
        elif stream.current_node_id != self.task.node_id:
            raise RecordInvalid(f"the stream is on its way to {stream.current_node_id!r}, not to {self.task.node_id!r}")
        return stream

    def _enter_graph(self, stream: PipeStream, record: InputRecord) -> None:
        """Give an intake record its identity: derived, so that a second try makes the same one."""
        task, metadata = self.task, stream.metadata
        stream.stream_id = derive_stream_id(task.lane, task.topic_id, record.topic, record.partition, record.offset)
        stream.cluster_id = self.graph.cluster_id
        stream.hop_count = 0
        metadata.datasource_id = task.datasource_id
        metadata.account_id = metadata.account_id or stream.document_ref.account_id
        metadata.account_id = metadata.account_id or self.graph.datasource_by_id[task.datasource_id].account_id
        metadata.entry_node_id = task.node_id
        metadata.graph_id = self.graph.graph_id

    def _add(self, result: ChunkResult, record: InputRecord, emission: Emission, *, is_entry: bool) -> None:
        if emission.outcome is Outcome.DEAD_LETTER:
            assert emission.error is not None
            self._add_dead_letter(result, record, emission, emission.error, is_entry=is_entry)
            return
        counts = result.counts[record.partition]
        if emission.outcome is Outcome.HANDED_OVER:
            counts.sent[emission.counted_as] += 1
            return
        if emission.outcome is Outcome.EDGE:
            assert emission.edge is not None
            topic = edge_topic(emission.edge, self.graph.cluster_id)
        else:
            topic = node_topic(self.graph.cluster_id, emission.to_node_id)
        key = (emission.stream.document.doc_id or emission.stream.stream_id).encode()
        headers = (
            ("pipestream.stream", emission.stream.stream_id.encode()),
            ("pipestream.from", emission.node_id.encode()),
        )
        result.outputs.append(OutputRecord(topic, key, self._store(result, emission), headers))
        counts.sent[emission.counted_as] += 1
        if emission.error is not None:
            result.last_error = str(emission.error)

    def _store(self, result: ChunkResult, emission: Emission) -> bytes:
        """Put the document among the objects, and return the stream that refers to it."""
        stream = emission.stream
        account_id = stream.metadata.account_id
        reference = DocumentReference(
            doc_id=stream.document.doc_id, source_node_id=emission.node_id, account_id=account_id
        )
        key = stream_key(account_id, stream.stream_id, emission.node_id)
        visits = list(stream.processing_path).count(emission.node_id)
        if visits > 1:
            # In a cycle a node has several outputs for one stream; a replay of an earlier hop needs its own.
            key = reference.object_key = f"{key.removesuffix('.pb')}.{visits}.pb"
        result.objects[key] = stream.document.SerializeToString(deterministic=True)
        stream.document_ref.CopyFrom(reference)  # takes the document's place
        return stream.SerializeToString(deterministic=True)

    def _add_failure(self, result: ChunkResult, record: InputRecord, error: PipestreamError, attempts: int) -> None:
        """A record that never became a stream has no document for an error-end: it is a dead letter as it is."""
        stream = PipeStream(current_node_id=self.task.node_id)
        emission = fail(stream, self.graph, error, attempts, time.time())
        self._add_dead_letter(result, record, emission, error, is_entry=True)
        result.failed += 1

    def _add_dead_letter(
        self,
        result: ChunkResult,
        record: InputRecord,
        emission: Emission,
        error: PipestreamError,
        *,
        is_entry: bool,
    ) -> None:
        node_id = emission.node_id
        policy = self.graph.node_by_id[node_id].dead_letters
        if not policy.enabled:
            raise error
        topic = policy.topic_override or dead_letter_topic(self.graph.cluster_id, node_id)
        if is_entry and self.task.datasource_id:
            topic = intake_dead_letter_topic(self.task.datasource_id)
        result.outputs.append(
            dead_letter(
                record,
                error,
                topic=topic,
                node_id=node_id,
                attempts=emission.attempts,
                run_id=self.task.run_id,
                graph_id=self.graph.graph_id,
                graph_hash=self.graph_hash,
                now=self.services.now(),
                value=None if is_entry else self._store(result, emission),
            )
        )
        result.counts[record.partition].dead_letters += 1
        result.last_error = f"{type(error).__name__}: {error}"


def _put_document(stream: PipeStream, key: str, data: bytes | DocumentMissing) -> None:
    if isinstance(data, DocumentMissing):
        raise data
    try:
        document = PipeDoc.FromString(data)
    except DecodeError as error:
        raise RecordInvalid(f"object {key} is not a PipeDoc: {error}") from None
    stream.document.CopyFrom(document)

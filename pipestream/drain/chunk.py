"""Turn a chunk of records into the objects and records that come of it.

Nothing is sent here: the caller stores the objects, then sends the records and the offsets in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from pipestream.documents.references import key_of, stream_key
from pipestream.drain.dead_letters import FOR_GRAPH, dead_letter
from pipestream.drain.range_task import DeadLettersOff, RangeTask
from pipestream.drain.result import ChunkResult, RecordResult
from pipestream.engine.emission import Emission, Outcome
from pipestream.engine.follow import follow
from pipestream.engine.process import Services, fail
from pipestream.errors import DocumentMissing, IdInvalid, PipestreamError, RecordInvalid
from pipestream.graph.flow import destination_of
from pipestream.graph.model import Graph
from pipestream.ids import check_key_part, derive_child_id, derive_stream_id
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings
from pipestream.topic_names import dead_letter_topic, intake_dead_letter_topic, node_topic
from pipestream.wire import DocumentReference, PipeDoc, PipeStream


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
        result = ChunkResult(records)
        wanted = [record for record in records if self._is_wanted(record)]
        for record, stream in zip(wanted, self._hydrate(wanted), strict=True):
            result.put(self._process(record, stream))
        return result

    def process_one(self, record: InputRecord) -> RecordResult:
        """Decode, hydrate and process a single record."""
        if not self._is_wanted(record):
            return RecordResult(record)
        (stream,) = self._hydrate([record])
        return self._process(record, stream)

    def give_up(
        self, record: InputRecord, error: PipestreamError, *, attempts: int, as_dead_letter: bool = False
    ) -> RecordResult:
        """Return what a record comes to that is not processed: it fails at its node, and everything else with it.

        Its document is not fetched, since that may be what no process survives; a reference stays the one it is.

        :param as_dead_letter: even if the graph has an error-end.
        """
        result = RecordResult(record, is_given_up=True)
        try:
            stream, key = self._take_in(record)
        except PipestreamError:
            as_dead_letter, stream, key = True, PipeStream(current_node_id=self.task.node_id), ""
        if key:
            stream.document_ref.object_key = key
        self._add_failure(result, stream, error, attempts, as_dead_letter=as_dead_letter)
        return result

    def _process(self, record: InputRecord, stream: PipeStream | PipestreamError) -> RecordResult:
        result = RecordResult(record)
        if isinstance(stream, PipestreamError):
            # It never became a stream, so there is no document for an error-end: it is a dead letter as it is.
            never = PipeStream(current_node_id=self.task.node_id)
            self._add_failure(result, never, stream, attempts=1, as_dead_letter=True)
            return result
        hops = stream.hop_count
        for emission in follow(stream, self.graph, self.services, self.settings):
            # A failed stream keeps the hops it came with, so only one that failed at the record's own node
            # still has those of the record.
            self._add(result, emission, is_entry=emission.stream.hop_count == hops)
        return result

    def _hydrate(self, records: Sequence[InputRecord]) -> list[PipeStream | PipestreamError]:
        """Return each record's stream with its document inline, or why there is none. One fetch for all."""
        streams: list[PipeStream | PipestreamError] = []
        wanted: list[tuple[int, str]] = []
        for index, record in enumerate(records):
            try:
                stream, key = self._take_in(record)
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
        """A backfill of some documents passes over the others; the key of a record is its document's id.

        And a replay is for the graph in which the document failed.
        """
        if header(record.headers, FOR_GRAPH) not in (None, self.graph.graph_id):
            return False
        return not self.task.doc_ids or (record.key or b"").decode("utf-8", "replace") in self.task.doc_ids

    def _take_in(self, record: InputRecord) -> tuple[PipeStream, str]:
        """Return a record's stream, and the key of its document; none where the document is inline."""
        stream = self._decode(record)
        key = "" if stream.HasField("document") else key_of(stream)
        if self.task.datasource_id:
            self._enter_graph(stream, record)
        else:
            self._enter_lane(stream)
        check_key_part(stream.metadata.account_id, "account id")
        check_key_part(stream.stream_id, "stream id")
        return stream, key

    def _decode(self, record: InputRecord) -> PipeStream:
        stream = _parse(record)
        if stream.WhichOneof("document_payload") is None:
            raise RecordInvalid("the stream has neither a document nor a reference to one")
        if self.task.datasource_id:
            stream.current_node_id = self.task.node_id
            self._settle_account(stream)
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
        metadata.entry_node_id = task.node_id
        metadata.graph_id = self.graph.graph_id

    def _settle_account(self, stream: PipeStream) -> None:
        """Give an intake record the account of its datasource: whoever can write to the topic cannot choose another,
        and so reach documents that are not theirs.
        """
        datasource = self.graph.datasource_by_id[self.task.datasource_id]
        for account_id in (stream.metadata.account_id, stream.document_ref.account_id):
            if account_id not in ("", datasource.account_id):
                raise RecordInvalid(
                    f"the record is of account {account_id!r}, but datasource {datasource.datasource_id} "
                    f"is of {datasource.account_id!r}"
                )
        stream.metadata.account_id = datasource.account_id

    def _enter_lane(self, stream: PipeStream) -> None:
        """In a backfill, give a node's record another identity: the live run's objects and children have names derived
        from the one it has.
        """
        if not self.task.is_live:
            stream.stream_id = derive_child_id(stream.stream_id, self.task.node_id, f"lane/{self.task.lane}")

    def _add(self, result: RecordResult, emission: Emission, *, is_entry: bool) -> None:
        result.error = emission.error or result.error
        if emission.outcome is Outcome.DEAD_LETTER:
            assert emission.error is not None
            self._add_dead_letter(result, emission, emission.error, is_entry=is_entry)
            return
        result.sent.append(emission.counted_as)
        if emission.outcome is Outcome.HANDED_OVER:
            return
        if emission.outcome is Outcome.EDGE:
            assert emission.edge is not None
            topic = destination_of(emission.edge, self.graph).topic
        else:
            topic = node_topic(self.graph.cluster_id, emission.to_node_id)
        stream = emission.stream
        key = (stream.document.doc_id or stream.document_ref.doc_id or stream.stream_id).encode()
        headers = (
            ("pipestream.stream", stream.stream_id.encode()),
            ("pipestream.from", emission.node_id.encode()),
        )
        result.outputs.append(OutputRecord(topic, key, self._store(result, emission), headers))

    def _add_failure(
        self, result: RecordResult, stream: PipeStream, error: PipestreamError, attempts: int, *, as_dead_letter: bool
    ) -> None:
        emission = fail(stream, self.graph, error, attempts, self.services.now())
        if as_dead_letter:
            emission = replace(emission, outcome=Outcome.DEAD_LETTER)
        self._add(result, emission, is_entry=True)

    def _store(self, result: RecordResult, emission: Emission) -> bytes:
        """Put the document among the objects, and return the stream that refers to it."""
        stream = emission.stream
        if stream.HasField("document"):
            account_id = stream.metadata.account_id
            reference = DocumentReference(
                doc_id=stream.document.doc_id, source_node_id=emission.node_id, account_id=account_id
            )
            key = stream_key(account_id, stream.stream_id, emission.node_id)
            visits = list(stream.processing_path).count(emission.node_id)
            if emission.error is not None:
                # What a node could not process is its input. Under the name of its output, a replay that succeeds
                # would overwrite what it came from, and one that dies then would process its own output.
                key = reference.object_key = _variant(key, f"failed.{stream.hop_count}")
            elif visits > 1:
                # In a cycle a node has several outputs for one stream; a replay of an earlier hop needs its own.
                key = reference.object_key = _variant(key, str(visits))
            result.objects[key] = stream.document.SerializeToString(deterministic=True)
            stream.document_ref.CopyFrom(reference)  # takes the document's place
        return stream.SerializeToString(deterministic=True)

    def _add_dead_letter(
        self, result: RecordResult, emission: Emission, error: PipestreamError, *, is_entry: bool
    ) -> None:
        record, node_id = result.record, emission.node_id
        policy = self.graph.node_by_id[node_id].dead_letters
        if not policy.enabled:
            raise DeadLettersOff(node_id, record.topic, record.partition, record.offset, error)
        topic = policy.topic_override or dead_letter_topic(self.graph.cluster_id, node_id)
        if is_entry and self.task.datasource_id:
            topic = intake_dead_letter_topic(self.task.datasource_id)
        if is_entry:
            value = self._entry_letter(result, node_id, include_payload=policy.include_payload)
        else:
            value = self._store(result, emission)
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
                module=self.graph.node_by_id[node_id].module,
                value=value,
            )
        )
        result.dead_letters += 1

    def _entry_letter(self, result: RecordResult, node_id: str, *, include_payload: bool) -> bytes | None:
        """Return the letter of a record that failed at its own node; nothing where that is the record as it came.

        A record that cannot be read stays as it is, for there is nothing to change in it.
        """
        try:
            stream = _parse(result.record)
            is_changed = self._rename_for_replay(stream)
            if stream.HasField("document") and not include_payload:
                self._put_document_aside(result, stream, node_id)
                is_changed = True
        except (RecordInvalid, IdInvalid):
            return None
        return stream.SerializeToString(deterministic=True) if is_changed else None

    def _rename_for_replay(self, stream: PipeStream) -> bool:
        """Give a letter of a node's backfill the identity that the backfill gave its record; return whether it did.

        A replay goes through the live topic. Under the record's own identity it would overwrite what the live run
        made of it.
        """
        if self.task.datasource_id or self.task.is_live:
            return False
        if not stream.HasField("document"):
            stream.document_ref.object_key = key_of(stream)  # which may follow from the identity
        self._enter_lane(stream)
        return True

    def _put_document_aside(self, result: RecordResult, stream: PipeStream, node_id: str) -> None:
        """Put a reference in place of a document, which is stored instead."""
        record, task = result.record, self.task
        if task.datasource_id:
            self._settle_account(stream)
        account_id = stream.metadata.account_id
        # Derived from the record's place, so that it is the same in a second try and no other record's.
        stored_as = derive_stream_id(task.lane, task.topic_id, record.topic, record.partition, record.offset)
        key = _variant(stream_key(account_id, stored_as, node_id), "failed")
        result.objects[key] = stream.document.SerializeToString(deterministic=True)
        stream.document_ref.CopyFrom(
            DocumentReference(
                doc_id=stream.document.doc_id, source_node_id=node_id, account_id=account_id, object_key=key
            )
        )


def _parse(record: InputRecord) -> PipeStream:
    if record.value is None:
        raise RecordInvalid("the record has no value; a PipeStream was expected")
    try:
        return PipeStream.FromString(record.value)
    except DecodeError as error:
        raise RecordInvalid(f"the record's value is not a PipeStream: {error}") from None


def _variant(key: str, name: str) -> str:
    """Return the key of another document of the same stream and node; node ids have no dots."""
    return f"{key.removesuffix('.pb')}.{name}.pb"


def _put_document(stream: PipeStream, key: str, data: bytes | DocumentMissing) -> None:
    if isinstance(data, DocumentMissing):
        raise data
    try:
        document = PipeDoc.FromString(data)
    except DecodeError as error:
        raise RecordInvalid(f"object {key} is not a PipeDoc: {error}") from None
    stream.document.CopyFrom(document)

"""Turn an emission into the record that is sent and the object that the record refers to.

Nothing is sent or stored here. The sender stores the object first: a record must not refer to a missing object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipestream.documents.references import key_of, stream_key, variant_key
from pipestream.engine.blobs import put_blobs_aside
from pipestream.engine.dead_letter_record import DeadLettersOff, dead_letter
from pipestream.engine.intake import Arrival, Entrance, decode_stream, enter_lane, settle_account
from pipestream.engine.process import Emission, Outcome
from pipestream.errors import IdInvalid, RecordInvalid
from pipestream.graph.flow import destination_of, letter_topic
from pipestream.graph.model import Datasource, Edge, Graph, Node
from pipestream.ids import derive_stream_id
from pipestream.kafka.records import OutputRecord
from pipestream.topic_names import node_topic
from pipestream.wire import DocumentReference, PipeDoc, PipeStream


@dataclass(frozen=True, slots=True)
class Output:
    """A record to send, and what to store before."""

    record: OutputRecord
    objects: Mapping[str, bytes] = field(default_factory=dict)
    document_key: str = ""
    """The key of the object that the record refers to, if it is among those to store."""
    may_be_in_segment: bool = False
    """Whether that document may go into a segment instead; the record then refers to its place there."""


def output_of(emission: Emission, graph: Graph) -> Output:
    """Return the output of a stream that moves to a node or to an end of the graph."""
    if emission.outcome is Outcome.EDGE:
        assert emission.edge is not None
        topic = destination_of(emission.edge, graph).topic
    else:
        topic = node_topic(graph.cluster_id, emission.to_node_id)
    stream = emission.stream
    key = (stream.document.doc_id or stream.document_ref.doc_id or stream.stream_id).encode()
    headers = (
        ("pipestream.stream", stream.stream_id.encode()),
        ("pipestream.from", emission.node_id.encode()),
    )
    # What a node could not process stays as it came.
    node = graph.node_by_id.get(emission.node_id) if emission.error is None else None
    blobs = put_blobs_aside(stream, node, graph) if node else {}
    if emission.edge is not None and not emission.edge.is_cross_cluster:
        # Only between two nodes of the graph. What ends, fails or goes elsewhere is always stored: others read it.
        limit_bytes = inline_limit_bytes(graph.datasource_by_id.get(stream.metadata.datasource_id))
        inline = write_inline(stream, limit_bytes)
        if inline is not None:
            return Output(OutputRecord(topic, key, inline, headers), blobs)
    value, objects = refer_to_document(stream, emission.node_id, is_failed=emission.error is not None)
    may_be_in_segment = emission.outcome is Outcome.EDGE and node is not None and packs_documents(node, emission.edge)
    record = OutputRecord(topic, key, value, headers)
    return Output(record, {**blobs, **objects}, next(iter(objects), ""), may_be_in_segment)


@dataclass(frozen=True, slots=True)
class DeadLetterWriter:
    """Writes the dead letters of one run."""

    entrance: Entrance
    run_id: str
    graph_hash: str
    now: Callable[[], float]

    def letter_of(self, emission: Emission, arrival: Arrival, *, is_entry: bool) -> Output:
        """Return the dead letter of a stream.

        :param is_entry: it failed at the node that it entered at, so its letter is the record as it came.
        :raises DeadLettersOff: its node is to have none.
        """
        assert emission.error is not None
        graph, node = self.entrance.graph, self.entrance.graph.node_by_id[emission.node_id]
        if not node.dead_letters.enabled:
            record = arrival.record
            raise DeadLettersOff(node.node_id, record.topic, record.partition, record.offset, emission.error)
        if is_entry:
            value, objects = self._entry_letter(arrival, emission, node.dead_letters.include_payload)
        else:
            value, objects = refer_to_document(emission.stream, emission.node_id, is_failed=True)
        topic, datasource_id = self._place(node, is_entry=is_entry)
        letter = dead_letter(
            arrival.record,
            emission.error,
            topic=topic,
            node_id=node.node_id,
            attempts=emission.attempts,
            run_id=self.run_id,
            graph_id=graph.graph_id,
            graph_hash=self.graph_hash,
            now=self.now(),
            module=node.module,
            datasource_id=datasource_id,
            value=value,
        )
        return Output(letter, objects, next(iter(objects), ""))

    def _place(self, node: Node, *, is_entry: bool) -> tuple[str, str]:
        """Return the topic of a letter, and the datasource it must name because the topic's name does not."""
        datasource_id = self.entrance.datasource_id if is_entry else ""
        topic = letter_topic(self.entrance.graph, node, datasource_id)
        return topic, datasource_id if node.dead_letters.topic_override else ""

    def _entry_letter(
        self, arrival: Arrival, emission: Emission, include_payload: bool
    ) -> tuple[bytes | None, Mapping[str, bytes]]:
        """Return the value of the letter, and what it refers to; no value where that is the record's own.

        A record that cannot be read stays as it is: there is nothing to change in it.
        """
        try:
            stream = decode_stream(arrival.record.value)
            is_changed = self._rename_for_replay(stream)
            objects: Mapping[str, bytes] = {}
            if stream.HasField("document") and not include_payload:
                objects = self._put_document_aside(arrival, stream, emission.node_id)
                is_changed = True
            elif stream.document_ref.HasField("object_offset") and emission.stream.HasField("document"):
                # A letter may wait for years, and must not keep all other documents of a segment for so long.
                stream.document.CopyFrom(emission.stream.document)  # takes the reference's place
                objects = self._put_document_aside(arrival, stream, emission.node_id)
                is_changed = True
        except (RecordInvalid, IdInvalid):
            return None, {}
        return (stream.SerializeToString(deterministic=True) if is_changed else None), objects

    def _rename_for_replay(self, stream: PipeStream) -> bool:
        """Give a letter of a node's backfill the identity that the backfill gave its record; return whether it did.

        A replay goes through the live topic. Under the record's own identity it would overwrite what the live run
        made of it.
        """
        if not self.entrance.renames:
            return False
        if not stream.HasField("document"):
            stream.document_ref.object_key = key_of(stream)  # which may follow from the identity
        enter_lane(stream, self.entrance)
        return True

    def _put_document_aside(self, arrival: Arrival, stream: PipeStream, node_id: str) -> Mapping[str, bytes]:
        """Put a reference in place of a document; return the object that it refers to."""
        if self.entrance.datasource_id:
            settle_account(stream, self.entrance)
        account_id = stream.metadata.account_id
        # Derived from where it came from, so that it is the same in a second try and no other record's.
        stored_as = derive_stream_id(self.entrance.lane, arrival.origin)
        key = variant_key(stream_key(account_id, stored_as, node_id), "failed")
        objects = {key: _encode(stream.document)}
        stream.document_ref.CopyFrom(
            DocumentReference(
                doc_id=stream.document.doc_id, source_node_id=node_id, account_id=account_id, object_key=key
            )
        )
        return objects


def packs_documents(node: Node, edge: Edge | None) -> bool:
    """Tell whether documents that a node sends along an edge may share objects: on their way within one cluster.

    What ends, fails or goes to another cluster is kept for longer, or read by others, so it has an object of its own.
    """
    return edge is not None and not edge.is_cross_cluster and node.storage not in ("", "objects")


def inline_limit_bytes(datasource: Datasource | None) -> int | None:
    """Return up to which size documents of a datasource travel in their records; None: they are always stored."""
    if datasource is None or datasource.persistence.persist_pipedoc:
        return None
    return datasource.persistence.max_inline_size_bytes


def write_inline(stream: PipeStream, limit_bytes: int | None) -> bytes | None:
    """Return a stream with its document in it; None if the document is larger than the limit, or must be stored."""
    if limit_bytes is None or not stream.HasField("document"):
        return None
    value = stream.SerializeToString(deterministic=True)
    # The stream is larger than its document. To ask a message for its size costs as much as to write it.
    return value if len(value) <= limit_bytes or stream.document.ByteSize() <= limit_bytes else None


def refer_to_document(stream: PipeStream, node_id: str, *, is_failed: bool) -> tuple[bytes, dict[str, bytes]]:
    """Return the stream with a reference in place of its document, and the object that it refers to.

    :param node_id: the node that the stream leaves, or could not be processed at.
    """
    objects = {}
    if stream.HasField("document"):
        document, account_id = stream.document, stream.metadata.account_id
        doc_id, data = document.doc_id, _encode(document)
        key = stream_key(account_id, stream.stream_id, node_id)
        reference = stream.document_ref
        reference.SetInParent()  # takes the document's place
        reference.doc_id, reference.source_node_id, reference.account_id = doc_id, node_id, account_id
        visits = list(stream.processing_path).count(node_id)
        if is_failed:
            # What a node could not process is its input. Under the name of its output, a replay that succeeds
            # would overwrite what it came from, and one that dies then would process its own output.
            key = reference.object_key = variant_key(key, f"failed.{stream.hop_count}")
        elif visits > 1:
            # In a cycle a node has several outputs for one stream; a replay of an earlier hop needs its own.
            key = reference.object_key = variant_key(key, str(visits))
        objects[key] = data
    return stream.SerializeToString(deterministic=True), objects


def _encode(document: PipeDoc) -> bytes:
    return document.SerializeToString(deterministic=True)

"""Turn what arrives into a stream that can be processed: decode it, settle account and identity, fetch its document.

The same for everything that carries streams. A drain has a record of a topic; an engine that is called has a stream in
hand. Where it enters is an ``Entrance``; what a stream id is derived from is an ``origin``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pipestream.documents.fetch import Fetched, fetch_documents
from pipestream.documents.references import DocumentPlace, place_of
from pipestream.errors import Concern, PipestreamError, RecordInvalid
from pipestream.graph.model import Graph
from pipestream.ids import check_key_part, derive_child_id, derive_stream_id
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import ObjectStore
from pipestream.wire import PipeStream


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where streams enter a graph, and in which lane."""

    graph: Graph
    node_id: str
    lane: str
    datasource_id: str = ""
    """Empty: they come from another node, and have account and identity already."""
    is_live: bool = True
    """Whether the lane is the live one. A backfill gives its streams identities of their own."""
    entered: PipeStream = field(init=False, repr=False, compare=False)
    """What every stream from the datasource has in common when it has entered the graph. Nobody may change it."""

    def __post_init__(self) -> None:
        # Merged into each stream: one call takes a third of the time that setting the fields one by one takes.
        entered = PipeStream()
        if self.datasource_id:
            entered.current_node_id = self.node_id
            entered.cluster_id = self.graph.cluster_id
            entered.metadata.account_id = self.graph.datasource_by_id[self.datasource_id].account_id
            entered.metadata.datasource_id = self.datasource_id
            entered.metadata.entry_node_id = self.node_id
            entered.metadata.graph_id = self.graph.graph_id
        object.__setattr__(self, "entered", entered)

    @property
    def renames(self) -> bool:
        """Whether a stream from another node gets a new identity here."""
        return not self.datasource_id and not self.is_live


class Arrival(NamedTuple):
    """One record that arrives, and what a derived id is made of.

    An engine without a topic gives the record that a replay would send: its topic, with partition and offset -1.
    """

    record: InputRecord
    origin: str
    """The same for every try, and of no other arrival: the place in a topic, or a key that the caller gives."""
    stream: PipeStream | None = None
    """What the record's value says, if it is decoded already. ``take_in`` changes it, so nobody else may use it."""


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The streams of some arrivals, in their order."""

    streams: list[PipeStream | PipestreamError]
    """Each with its document inline, or the reason why there is none."""
    fetched_bytes: int


def take_in(
    arrivals: Sequence[Arrival],
    entrance: Entrance,
    store: ObjectStore,
    timed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[PipeStream | PipestreamError]:
    """Return each arrival's stream with its document inline, or why there is none. One fetch for all.

    :param timed: the fetch is made in its context, if there is anything to fetch.
    """
    return take_in_some(arrivals, entrance, store, None, timed).streams


def take_in_some(
    arrivals: Sequence[Arrival],
    entrance: Entrance,
    store: ObjectStore,
    most_bytes: int | None,
    timed: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> TakenIn:
    """Return the streams of arrivals. One fetch for all; see ``take_in``.

    :param most_bytes: stop when the fetched documents have so many, after one of them at least. The result then has
        fewer streams than there are arrivals.
    """
    streams: list[PipeStream | PipestreamError] = []
    wanted: list[tuple[int, PipeStream, DocumentPlace]] = []
    for index, arrival in enumerate(arrivals):
        try:
            stream = decode_stream(arrival.record.value) if arrival.stream is None else arrival.stream
            place = admit(stream, entrance, arrival.origin)
        except PipestreamError as error:
            streams.append(_blame(error))
        else:
            streams.append(stream)
            if place is not None:
                wanted.append((index, stream, place))
    if not wanted:
        return TakenIn(streams, fetched_bytes=0)
    with timed():
        found = fetch_documents(store, [place for _, _, place in wanted], most_bytes)
    if len(found) < len(wanted):
        del streams[wanted[len(found)][0] :]
    fetched_bytes = 0
    for (index, stream, place), data in zip(wanted, found, strict=False):
        try:
            fetched_bytes += _read_document(stream, place, data)
        except PipestreamError as error:
            streams[index] = _blame(error)
    return TakenIn(streams, fetched_bytes)


def _blame(error: PipestreamError) -> PipestreamError:
    """Return an error that is a record's own. One that concerns more must not become a dead letter of it."""
    if error.concerns is not Concern.RECORD:
        raise error
    return error


def read_arrival(arrival: Arrival, entrance: Entrance) -> tuple[PipeStream, DocumentPlace | None]:
    """Return an arrival's stream as it enters the graph, and where its document is; None if that is inline.

    :raises RecordInvalid, IdInvalid: it cannot enter here.
    """
    stream = decode_stream(arrival.record.value)
    return stream, admit(stream, entrance, arrival.origin)


def decode_stream(value: bytes | None) -> PipeStream:
    """Return the stream that a record's value is.

    :raises RecordInvalid: it is not one.
    """
    if value is None:
        raise RecordInvalid("the record has no value; a PipeStream was expected")
    try:
        return PipeStream.FromString(value)
    except DecodeError as error:
        raise RecordInvalid(f"the record's value is not a PipeStream: {error}") from None


def stand_in(arrival: Arrival, entrance: Entrance) -> PipeStream | None:
    """Return a stream that holds the bytes of a record which is not a stream itself, for the error-end.

    None for a record that is a stream, because its dead letter can be replayed, and for one of a node's topic, because
    nobody knows of which account the bytes are.
    """
    record = arrival.record
    if not entrance.datasource_id or _is_stream(record.value):
        return None
    stream = PipeStream()
    stream.metadata.context_params.update(
        {"topic": record.topic, "partition": str(record.partition), "offset": str(record.offset)}
    )
    stream.document.doc_id = (record.key or b"").decode("utf-8", "replace")
    blob = stream.document.blob_bag.blob
    blob.data = record.value or b""
    blob.size_bytes = len(blob.data)
    blob.mime_type = "application/octet-stream"
    admit(stream, entrance, arrival.origin)
    return stream


def _is_stream(value: bytes | None) -> bool:
    try:
        decode_stream(value)
    except RecordInvalid:
        return False
    return True


def admit(stream: PipeStream, entrance: Entrance, origin: str) -> DocumentPlace | None:
    """Give a stream the account and the identity it has in the graph, in place.

    :return: where its document is; None if that is inline.
    :raises RecordInvalid, IdInvalid: it cannot enter here.
    """
    payload = stream.WhichOneof("document_payload")
    if payload is None:
        raise RecordInvalid("the stream has neither a document nor a reference to one")
    if entrance.datasource_id:
        settle_account(stream, entrance)
    elif not stream.stream_id:
        raise RecordInvalid("a stream on a node's topic needs a stream_id")
    elif stream.current_node_id != entrance.node_id:
        raise RecordInvalid(f"the stream is on its way to {stream.current_node_id!r}, not to {entrance.node_id!r}")
    # Before the identity changes: a reference without a key follows from the one that the stream came with.
    place = None if payload == "document" else place_of(stream)
    if entrance.datasource_id:
        _enter_graph(stream, entrance, origin)
    else:
        enter_lane(stream, entrance)
        check_key_part(stream.stream_id, "stream id")  # one that is derived can always be in a key
    _check_account(stream.metadata.account_id)
    return place


# Few accounts have all the streams.
@lru_cache(maxsize=1_024)
def _check_account(account_id: str) -> None:
    check_key_part(account_id, "account id")


def settle_account(stream: PipeStream, entrance: Entrance) -> None:
    """Give a stream the account of its datasource.

    A producer that can write to the topic must not choose another account and so reach documents that are not its own.

    :raises RecordInvalid: it names another account.
    """
    datasource = entrance.graph.datasource_by_id[entrance.datasource_id]
    referred = stream.document_ref.account_id if stream.HasField("document_ref") else ""
    for account_id in (stream.metadata.account_id, referred):
        if account_id not in ("", datasource.account_id):
            raise RecordInvalid(
                f"the record belongs to account {account_id!r}, but datasource {datasource.datasource_id} "
                f"belongs to {datasource.account_id!r}"
            )
    stream.metadata.account_id = datasource.account_id


def enter_lane(stream: PipeStream, entrance: Entrance) -> None:
    """In a backfill, give a stream from another node a new identity: the live run's objects and children have names
    derived from the one it has.
    """
    if entrance.renames:
        stream.stream_id = derive_child_id(stream.stream_id, entrance.node_id, f"lane/{entrance.lane}")


def _enter_graph(stream: PipeStream, entrance: Entrance, origin: str) -> None:
    """Give a stream from a datasource its identity: derived, so that a second try makes the same one."""
    stream.MergeFrom(entrance.entered)
    stream.stream_id = derive_stream_id(entrance.lane, origin)
    stream.hop_count = 0


def _read_document(stream: PipeStream, place: DocumentPlace, data: Fetched) -> int:
    """Put a stored document into its stream, in place of the reference; return its size."""
    if not isinstance(data, bytes):
        raise data
    try:
        stream.document.ParseFromString(data)
    except DecodeError as error:
        raise RecordInvalid(f"object {place} is not a PipeDoc: {error}") from None
    stream.document.SetInParent()  # an empty document is one too
    return len(data)

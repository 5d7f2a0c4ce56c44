"""Take documents in: find the graphs of a datasource, and start the document in each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from pipestream.accepted import content_digest
from pipestream.documents.identity import prepare
from pipestream.documents.references import upload_key
from pipestream.engine.carry import Carrier, RecordResult
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.intake import Arrival, Entrance, settle_account
from pipestream.engine_server.already_stored import refer_to_stored
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk, Job, Keyed
from pipestream.engine_server.graphs import LiveGraphs
from pipestream.engine_server.served import ServedGraph
from pipestream.errors import RecordInvalid, RequestInvalid
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.graph.model import Datasource
from pipestream.ids import derive_stream_id
from pipestream.kafka.records import Headers, InputRecord, OutputRecord
from pipestream.rpc.status import coded_message
from pipestream.topic_names import intake_topic
from pipestream.wire import DocumentReference, PipeStream

# Of the answer, which the accepted log keeps for every key.
_MESSAGE_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to one handoff, and whether it may be tried again where it was not accepted."""

    response: IntakeHandoffResponse
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The graphs that a document enters, or why there are none."""

    targets: Sequence[ServedGraph] = ()
    reasons: Sequence[str] = field(default_factory=list)
    may_retry: bool = False
    is_for_all: bool = True
    """Whether every graph that has the datasource is meant, also one that is paused."""


def handoff_key(request: IntakeHandoffRequest, given: str) -> str:
    """Return the idempotency key of a handoff; empty if the caller gave neither a key nor a stream id.

    A key is the datasource's own: two datasources may use the same one.
    """
    own = given or request.stream.stream_id
    return f"intake/{request.datasource_id}/{own}" if own else ""


class Handoffs:
    """Accepts documents. One per engine process."""

    def __init__(self, desk: Desk, graphs: LiveGraphs, instance: str) -> None:
        self._desk = desk
        self._graphs = graphs
        self._instance = instance

    async def hand_off(self, request: IntakeHandoffRequest, caller: Caller) -> Answered:
        """Take a document in, and answer when it is durable.

        :raises NotOwner: another process accepts this key.
        :raises PipestreamError: it cannot be taken in.
        """
        if not request.datasource_id:
            raise RequestInvalid("datasource_id is empty; it says which graphs the document enters")
        content = content_digest(request.SerializeToString(deterministic=True))
        keyed = self._desk.keyed(handoff_key(request, caller.key), content)
        # Before anything else: a repeat gets the first answer, also if its graph takes no documents any more.
        answer = keyed.find()
        if answer is not None:
            return Answered(IntakeHandoffResponse.FromString(answer))
        chosen = self._choose(request)
        if not chosen.targets:
            message = "; ".join(chosen.reasons)[:_MESSAGE_LIMIT]
            return Answered(IntakeHandoffResponse(accepted=False, message=message), chosen.may_retry)
        _check_request(request, chosen.targets)
        with ExitStack() as in_use:
            for served in chosen.targets:
                in_use.enter_context(served.in_use())
            if _is_direct(request, chosen.targets, caller, self._desk.settings.engine_direct_bytes):
                answer = await self._process(request, chosen, caller, keyed)
            else:
                answer = await self._store(request, chosen, caller, keyed)
        return Answered(IntakeHandoffResponse.FromString(answer))

    def may_retry(self, request: IntakeHandoffRequest) -> bool:
        """Tell whether a document that the owner of its key did not accept may be accepted later."""
        chosen = self._choose(request)
        return chosen.may_retry or bool(chosen.targets)

    def _choose(self, request: IntakeHandoffRequest) -> _Chosen:
        datasource_id = request.datasource_id
        directory = self._graphs.directory
        entries = directory.entries(datasource_id)
        active, reasons = directory.active_entries(datasource_id)
        if not active:
            none = f"no applied graph has the datasource {datasource_id[:100]!r}"
            return _Chosen(reasons=reasons or [none], may_retry=bool(reasons))
        meant = _find_meant(entries, request)
        if not meant:
            return _Chosen(reasons=[_say_where_it_enters(entries, request)])
        targets = [served for served in active if served in meant]
        if not targets:
            return _Chosen(reasons=reasons, may_retry=True)
        problems = [
            f"graph {served.graph.graph_id}: {problem}"
            for served in targets
            for problem in served.own.ways[_source(served, datasource_id).entry_node_id].problems
        ]
        if problems:
            return _Chosen(reasons=problems, may_retry=True)
        # A graph that is paused now drains the intake topic later, so it counts, too.
        is_for_all = meant == entries and len(_accounts(entries, datasource_id)) == 1
        return _Chosen(targets, reasons, is_for_all=is_for_all)

    async def _process(self, request: IntakeHandoffRequest, chosen: _Chosen, caller: Caller, keyed: Keyed) -> bytes:
        origin = keyed.origin()
        jobs = [self._job(request, served, caller, origin) for served in chosen.targets]
        results = await self._desk.carry(jobs, caller.deadline)
        if request.doc_stored_in_repo:
            source = _source(chosen.targets[0], request.datasource_id)
            await refer_to_stored(results, request.stream, source, self._desk)

        def answer() -> bytes:
            return _answer(jobs, results, chosen.reasons).SerializeToString()

        return await self._desk.commit(jobs, results, keyed, answer)

    def _job(self, request: IntakeHandoffRequest, served: ServedGraph, caller: Caller, origin: str) -> Job:
        local, source = served.own, _source(served, request.datasource_id)
        entrance = Entrance(local.graph, source.entry_node_id, served.graph.graph_id, source.datasource_id)
        carrier = Carrier(entrance, self._instance, local.services, self._desk.settings)
        stream, topic = request.stream, intake_topic(source.datasource_id)
        value = stream.SerializeToString(deterministic=True)
        doc_id = stream.document.doc_id or stream.document_ref.doc_id
        record = InputRecord(topic, -1, -1, int(time.time() * 1000), doc_id.encode() or None, value, caller.headers)
        local.services.meter.received(topic, "grpc", [len(value)])
        is_blocking = local.ways[source.entry_node_id].is_blocking or stream.HasField("document_ref")
        return Job(carrier, Arrival(record, origin), is_blocking)

    async def _store(self, request: IntakeHandoffRequest, chosen: _Chosen, caller: Caller, keyed: Keyed) -> bytes:
        """Put the document into the object store, and a reference to it on the intake topic.

        Whoever drains the topic starts it in every graph. If it is for some of them only, each of these gets a record
        of its own, which the others pass over.
        """
        source = _source(chosen.targets[0], request.datasource_id)
        prepared = prepare(request.stream.document, source)
        key = upload_key(source.account_id, source.datasource_id, prepared.doc_id, prepared.checksum)
        stream = PipeStream()
        stream.CopyFrom(request.stream)
        stream.ClearField("stream_id")
        stream.document_ref.CopyFrom(
            DocumentReference(doc_id=prepared.doc_id, account_id=source.account_id, object_key=key)
        )
        settle_account(stream, Entrance(chosen.targets[0].graph, source.entry_node_id, "", source.datasource_id))
        stream.metadata.datasource_id = source.datasource_id
        topic = intake_topic(source.datasource_id)
        value = stream.SerializeToString(deterministic=True)
        marks: list[Headers] = [()]
        if not chosen.is_for_all:
            marks = [((FOR_GRAPH, served.graph.graph_id.encode()),) for served in chosen.targets]
        records = [OutputRecord(topic, prepared.doc_id.encode(), value, (*caller.headers, *mark)) for mark in marks]
        response = IntakeHandoffResponse(
            accepted=True,
            message=f"stored as {key}; {topic} has the reference, and its drain starts the document",
            entry_node_id=source.entry_node_id,
        )
        await self._desk.put({**dict(prepared.blobs), key: prepared.data})
        return await self._desk.submit(records, keyed, response.SerializeToString())


def _source(served: ServedGraph, datasource_id: str) -> Datasource:
    return served.graph.datasource_by_id[datasource_id]


def _accounts(graphs: Sequence[ServedGraph], datasource_id: str) -> list[str]:
    return sorted({_source(served, datasource_id).account_id for served in graphs})


def _find_meant(entries: Sequence[ServedGraph], request: IntakeHandoffRequest) -> list[ServedGraph]:
    """Return the graphs that a call means: by entry node, by graph, and by account where the graphs have several."""
    stream, datasource_id = request.stream, request.datasource_id
    # A sidecar hands over what one graph's lane read of the topic; the lanes of the others read it for themselves.
    graph_id, node_id = stream.metadata.graph_id, request.target_entry_node_id
    meant = [
        served
        for served in entries
        if node_id in ("", _source(served, datasource_id).entry_node_id) and graph_id in ("", served.graph.graph_id)
    ]
    named = request.account_id or stream.metadata.account_id or stream.document_ref.account_id
    return [served for served in meant if _source(served, datasource_id).account_id == named] or meant


def _say_where_it_enters(entries: Sequence[ServedGraph], request: IntakeHandoffRequest) -> str:
    datasource_id, graph_id = request.datasource_id, request.stream.metadata.graph_id
    places = ", ".join(f"{each.graph.graph_id} at {_source(each, datasource_id).entry_node_id}" for each in entries)
    asked = f"at {request.target_entry_node_id[:100]!r}" + (f" of graph {graph_id[:100]!r}" if graph_id else "")
    return f"datasource {datasource_id} does not enter {asked}: it enters {places}"


def _check_request(request: IntakeHandoffRequest, targets: Sequence[ServedGraph]) -> None:
    """Refuse what no graph can take, before anything is done.

    :raises RequestInvalid: it has no document, or it would start in several accounts.
    :raises RecordInvalid: it names another account.
    """
    if request.stream.WhichOneof("document_payload") is None:
        raise RequestInvalid("the stream has neither a document nor a reference to one")
    accounts = _accounts(targets, request.datasource_id)
    if len(accounts) > 1:
        raise RequestInvalid(
            f"datasource {request.datasource_id} belongs to the accounts {', '.join(accounts)} in different graphs; "
            "set account_id to the one whose document it is"
        )
    for served in targets:
        account_id = _source(served, request.datasource_id).account_id
        if request.account_id not in ("", account_id):
            raise RecordInvalid(
                f"the request is of account {request.account_id[:100]!r}, but datasource {request.datasource_id} of "
                f"graph {served.graph.graph_id} belongs to {account_id!r}"
            )


def _is_direct(
    request: IntakeHandoffRequest, targets: Sequence[ServedGraph], caller: Caller, direct_bytes: int
) -> bool:
    """Choose the path: the caller's wish, else the datasource's setting, else by size.

    A reference is processed directly: its document is in the object store already.
    """
    if request.stream.HasField("document_ref"):
        return True
    if caller.path:
        return caller.path == "direct"
    # One graph that wants its documents stored first is enough: they share the intake topic.
    paths = {_source(served, request.datasource_id).path for served in targets}
    if "stored" in paths:
        return False
    return "direct" in paths or request.stream.document.ByteSize() <= direct_bytes


def _answer(jobs: Sequence[Job], results: Sequence[RecordResult], reasons: Sequence[str]) -> IntakeHandoffResponse:
    entrance = jobs[0].carrier.entrance
    told = [*(_tell(job, result) for job, result in zip(jobs, results, strict=True)), *reasons]
    return IntakeHandoffResponse(
        accepted=True,
        message="; ".join(told)[:_MESSAGE_LIMIT],
        assigned_stream_id=_stream_id(jobs[0]),
        entry_node_id=entrance.node_id,
    )


def _stream_id(job: Job) -> str:
    return derive_stream_id(job.carrier.entrance.lane, job.arrival.origin)


def _tell(job: Job, result: RecordResult) -> str:
    """Return what became of a document in one graph, for people."""
    ways = [*result.sent, *(["dead letter"] * result.dead_letters)]
    text = f"graph {job.carrier.entrance.graph.graph_id}, stream {_stream_id(job)}: {', '.join(ways) or 'consumed'}"
    return f"{text} ({coded_message(result.error)[:300]})" if result.error else text

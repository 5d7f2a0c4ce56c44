"""Take documents in: start each in every graph of its datasource, and answer when it is durable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from pipestream.accepted import content_digest
from pipestream.documents.identity import prepare
from pipestream.documents.references import upload_key
from pipestream.engine.carry import RecordResult
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.intake import Arrival, settle_account
from pipestream.engine_server.already_stored import refer_to_stored
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk, Job, Keyed, give_up_refused, outputs_of
from pipestream.engine_server.doors import Choice, Doors
from pipestream.errors import PipestreamError, RecordTooLarge, RequestInvalid
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.ids import derive_stream_id
from pipestream.kafka.records import Headers, InputRecord, OutputRecord
from pipestream.rpc.status import coded_message
from pipestream.wire import DocumentReference, PipeStream

# Of the answer, which the accepted log keeps for every key.
_MESSAGE_LIMIT = 1_000
# Documents of a batch that are processed before other calls get their turn: 2 ms or so.
_TURN = 16

Failure = PipestreamError | TimeoutError


class Answered(NamedTuple):
    """The answer to one handoff, and whether it may be tried again where it was not accepted."""

    response: IntakeHandoffResponse
    may_retry: bool = False


class _Begun(NamedTuple):
    """A handoff that is not a repeat, and whose graphs are known."""

    request: IntakeHandoffRequest
    data: bytes
    """The request, serialised."""
    caller: Caller
    keyed: Keyed
    choice: Choice

    def enter(self) -> None:
        for door in self.choice.doors:
            door.served.enter()

    def leave(self) -> None:
        for door in self.choice.doors:
            door.served.leave()
            # The calls of a transaction are answered together, so the first one counts them all.
            door.meter.flush()


class _Carried(NamedTuple):
    """A handoff whose document is processed; nothing of it is durable yet."""

    begun: _Begun
    jobs: Sequence[Job]
    results: list[RecordResult]

    def respond(self) -> IntakeHandoffResponse:
        return _answer(self.jobs, self.results, self.begun.choice.reasons)

    def answer(self) -> bytes:
        return self.respond().SerializeToString()


def handoff_key(request: IntakeHandoffRequest, given: str) -> str:
    """Return the idempotency key of a handoff; empty if the caller gave neither a key nor a stream id.

    A key is the datasource's own: two datasources may use the same one.
    """
    own = given or request.stream.stream_id
    return f"intake/{request.datasource_id}/{own}" if own else ""


class Handoffs:
    """Accepts documents. One per engine process. Requests are its own: it may change them."""

    def __init__(self, desk: Desk, doors: Doors) -> None:
        self._desk = desk
        self._doors = doors

    async def hand_off(self, request: IntakeHandoffRequest, caller: Caller) -> Answered:
        """Take a document in, and answer when it is durable.

        :raises NotOwner: another process accepts this key.
        :raises PipestreamError: it cannot be taken in.
        """
        begun = self._begin(request, caller)
        return begun if isinstance(begun, Answered) else await self._finish(begun)

    async def hand_off_many(self, handoffs: Sequence[tuple[IntakeHandoffRequest, Caller]]) -> list[Answered | Failure]:
        """Take documents in as one unit; return the answer to each, or its error.

        Those that need no module are processed one after the other, and then stored and submitted together. That is
        several times cheaper than a task for each.
        """
        outcomes: list[Answered | Failure | None] = [None] * len(handoffs)
        carried: dict[int, _Carried] = {}
        alone: dict[int, _Begun] = {}
        begun: _Begun | Answered
        try:
            for index, (request, caller) in enumerate(handoffs):
                if index % _TURN == _TURN - 1:
                    await asyncio.sleep(0)
                try:
                    begun = self._begin(request, caller)
                    if isinstance(begun, Answered):
                        outcomes[index] = begun
                    elif self._is_quick(request, begun.choice, caller):
                        # Noted before it is processed: whatever is raised, it has to leave.
                        carried[index] = _Carried(begun, self._jobs(begun), [])
                        begun.enter()
                        carried[index].results.extend(self._desk.carry_now(carried[index].jobs, caller.deadline))
                    else:
                        # Now, and not only when its turn comes: its version may be replaced meanwhile.
                        begun.enter()
                        alone[index] = begun
                except (PipestreamError, TimeoutError) as error:
                    outcomes[index] = error
            ready = {index: each for index, each in carried.items() if outcomes[index] is None}
            committing = self._commit_many(list(ready.values()))
            finishing = asyncio.gather(*map(self._finish, alone.values()), return_exceptions=True)
            together, apart = await asyncio.gather(committing, finishing)
        finally:
            for each in (*(each.begun for each in carried.values()), *alone.values()):
                each.leave()
        for index, outcome in zip((*ready, *alone), (*together, *apart), strict=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, (PipestreamError, TimeoutError)):
                raise outcome
            outcomes[index] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def is_quick(self, request: IntakeHandoffRequest, caller: Caller) -> bool:
        """Tell whether a document can be processed without waiting for anything. Then it may be one of many."""
        return self._is_quick(request, self._doors.choose(request), caller)

    def may_retry(self, request: IntakeHandoffRequest) -> bool:
        """Tell whether a document that the owner of its key did not accept may be accepted later."""
        choice = self._doors.choose(request)
        return choice.may_retry or bool(choice.doors)

    def _begin(self, request: IntakeHandoffRequest, caller: Caller) -> Answered | _Begun:
        """Look a handoff up: return its answer where that is known without doing anything."""
        if not request.datasource_id:
            raise RequestInvalid("datasource_id is empty; it says which graphs the document enters")
        data = request.SerializeToString(deterministic=True)
        keyed = self._desk.keyed(handoff_key(request, caller.key), content_digest(data))
        # Before anything else: a repeat gets the first answer, also if its graph takes no documents any more.
        answer = keyed.find()
        if answer is not None:
            return Answered(IntakeHandoffResponse.FromString(answer))
        choice = self._doors.choose(request)
        if not choice.doors:
            message = "; ".join(choice.reasons)[:_MESSAGE_LIMIT]
            return Answered(IntakeHandoffResponse(accepted=False, message=message), choice.may_retry)
        choice.check(request)
        return _Begun(request, data, caller, keyed, choice)

    async def _finish(self, begun: _Begun) -> Answered:
        begun.enter()
        try:
            is_direct = self._is_direct(begun.request, begun.choice, begun.caller)
            answer = await (self._process(begun) if is_direct else self._store(begun))
        finally:
            begun.leave()
        return Answered(IntakeHandoffResponse.FromString(answer))

    def _is_direct(self, request: IntakeHandoffRequest, choice: Choice, caller: Caller) -> bool:
        """Choose the path: the caller's wish, else the datasource's setting, else by size.

        A reference is processed directly: its document is in the object store already.
        """
        stream = request.stream
        if stream.HasField("document_ref"):
            return True
        if caller.path:
            return caller.path == "direct"
        if choice.path:
            return choice.path == "direct"
        return stream.document.ByteSize() <= self._desk.settings.engine_direct_bytes

    def _is_quick(self, request: IntakeHandoffRequest, choice: Choice, caller: Caller) -> bool:
        """Tell whether a document can be processed without waiting for anything."""
        if request.doc_stored_in_repo or request.stream.HasField("document_ref"):
            return False
        return not choice.is_blocking and self._is_direct(request, choice, caller)

    async def _process(self, begun: _Begun) -> bytes:
        jobs, request = self._jobs(begun), begun.request
        carried = _Carried(begun, jobs, await self._desk.carry(jobs, begun.caller.deadline))
        if request.doc_stored_in_repo:
            await refer_to_stored(carried.results, request.stream, begun.choice.doors[0].source, self._desk)
        return await self._desk.commit(jobs, carried.results, begun.keyed, carried.answer)

    async def _commit_many(self, handoffs: Sequence[_Carried]) -> list[Answered | BaseException]:
        """Make documents durable together; return the answer to each, or its error."""
        if not handoffs:
            return []
        try:
            await self._desk.put_results(
                [job for each in handoffs for job in each.jobs],
                [result for each in handoffs for result in each.results],
            )
        except PipestreamError as error:
            return [error] * len(handoffs)
        responses = [each.respond() for each in handoffs]
        own = [response.SerializeToString() for response in responses]
        calls = [
            (outputs_of(each.results), each.begun.keyed, answer) for each, answer in zip(handoffs, own, strict=True)
        ]
        answers = await self._desk.submit_together(calls)
        # The answer that counts is nearly always the own one, which need not be read again.
        return [
            Answered(response) if answer is mine else await self._settle(each, answer)
            for each, response, mine, answer in zip(handoffs, responses, own, answers, strict=True)
        ]

    async def _settle(self, handoff: _Carried, answer: bytes | BaseException) -> Answered | BaseException:
        """Return the outcome of one document. If Kafka refuses an output for its size, it is given up first."""
        try:
            if isinstance(answer, RecordTooLarge):
                give_up_refused(handoff.jobs, handoff.results, answer)
                answer = await self._desk.commit(handoff.jobs, handoff.results, handoff.begun.keyed, handoff.answer)
        except PipestreamError as error:
            answer = error
        return answer if isinstance(answer, BaseException) else Answered(IntakeHandoffResponse.FromString(answer))

    def _jobs(self, begun: _Begun) -> list[Job]:
        request, doors = begun.request, begun.choice.doors
        stream, origin = request.stream, begun.keyed.origin()
        value, doc_id = _stream_value(begun.data), stream.document.doc_id or stream.document_ref.doc_id
        record = InputRecord(
            doors[0].topic, -1, -1, int(time.time() * 1000), doc_id.encode() or None, value, begun.caller.headers
        )
        # Processing changes the stream, so it is decoded again where somebody else needs it, too.
        is_last_use = len(doors) == 1 and not request.doc_stored_in_repo
        arrival = Arrival(record, origin, stream if is_last_use else None)
        is_reference = stream.HasField("document_ref")
        for door in doors:
            door.meter.received(door.topic, "grpc", [len(value)])
        return [
            Job(
                door.carrier,
                arrival,
                door.is_blocking or is_reference,
                door.packer,
                passage=door.passage,
                inline_passage=door.inline_passage,
            )
            for door in doors
        ]

    async def _store(self, begun: _Begun) -> bytes:
        """Put the document into the object store, and a reference to it on the intake topic.

        Whoever drains the topic starts it in every graph. If it is for some of them only, each of these gets a record
        of its own, which the others pass over.
        """
        choice, caller, door = begun.choice, begun.caller, begun.choice.doors[0]
        source, topic = door.source, door.topic
        prepared = prepare(begun.request.stream.document, source)
        key = upload_key(source.account_id, source.datasource_id, prepared.doc_id, prepared.checksum)
        stream = PipeStream()
        stream.CopyFrom(begun.request.stream)
        stream.ClearField("stream_id")
        stream.document_ref.CopyFrom(
            DocumentReference(doc_id=prepared.doc_id, account_id=source.account_id, object_key=key)
        )
        settle_account(stream, door.carrier.entrance)
        stream.metadata.datasource_id = source.datasource_id
        value = stream.SerializeToString(deterministic=True)
        marks: list[Headers] = [()]
        if not choice.is_for_all:
            marks = [((FOR_GRAPH, each.served.graph.graph_id.encode()),) for each in choice.doors]
        records = [OutputRecord(topic, prepared.doc_id.encode(), value, (*caller.headers, *mark)) for mark in marks]
        response = IntakeHandoffResponse(
            accepted=True,
            message=f"stored as {key}; {topic} has the reference, and its drain starts the document",
            entry_node_id=source.entry_node_id,
        )
        with door.carrier.services.meter.timed("dispatch"):
            await self._desk.put({**dict(prepared.blobs), key: prepared.data})
        return await self._desk.submit_soon(records, begun.keyed, response.SerializeToString())


def _stream_value(data: bytes) -> bytes:
    """Return the stream in a serialised request. It is field 1, and fields are in order: tag, length, stream."""
    length, shift, at = 0, 0, 1
    while True:
        byte = data[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return data[at : at + length]


def _answer(jobs: Sequence[Job], results: Sequence[RecordResult], reasons: Sequence[str]) -> IntakeHandoffResponse:
    stream_ids = [derive_stream_id(job.carrier.entrance.lane, job.arrival.origin) for job in jobs]
    told = [*map(_tell, jobs, results, stream_ids), *reasons]
    return IntakeHandoffResponse(
        accepted=True,
        message="; ".join(told)[:_MESSAGE_LIMIT],
        assigned_stream_id=stream_ids[0],
        entry_node_id=jobs[0].carrier.entrance.node_id,
    )


def _tell(job: Job, result: RecordResult, stream_id: str) -> str:
    """Return what became of a document in one graph, for people."""
    ways = [*result.sent, *(["dead letter"] * result.dead_letters)]
    text = f"graph {job.carrier.entrance.graph.graph_id}, stream {stream_id}: {', '.join(ways) or 'consumed'}"
    return f"{text} ({coded_message(result.error)[:300]})" if result.error else text

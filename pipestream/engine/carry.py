"""Carry one arrival through a graph: from the stream that was taken in to the records and objects that leave.

Everything that moves documents calls this: the drain for the records of a range, the engine for a call, the sidecar.
Nothing is sent or stored here: the caller stores the objects, then sends the records in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pipestream.documents.references import content_key
from pipestream.engine.follow import follow
from pipestream.engine.intake import Arrival, Entrance, read_arrival, stand_in
from pipestream.engine.outputs import DeadLetterWriter, Output, output_of
from pipestream.engine.process import Emission, Outcome, Services, fail
from pipestream.errors import PipestreamError
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.settings import Settings
from pipestream.telemetry.tracing import TRACEPARENT, header_of, is_traced, record_error, span, trace_id_of
from pipestream.wire import DocumentReference, PipeStream

MESSAGE_TYPES = {Outcome.EDGE: "routing", Outcome.HAPPY_END: "happy_end", Outcome.ERROR_END: "error_end"}


@dataclass(slots=True)
class RecordResult:
    """The result of one record."""

    record: InputRecord
    outputs: list[OutputRecord] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    """To be stored before the outputs are sent, which refer to them."""
    sent: Sequence[str] = ()
    """The ways its documents went, by the names the ledger counts them under."""
    decisions: Sequence[str] = ()
    """What conditions decided, by the names the ledger counts it under."""
    dead_letters: int = 0
    error: PipestreamError | None = None
    """The last failure of a document of this record."""
    document_keys: dict[int, str] = field(default_factory=dict)
    """The places of outputs, and which of the objects each refers to."""
    for_segments: dict[int, str] = field(default_factory=dict)
    """Which objects may go into a segment instead: the place of an output, and the key of the object it refers to."""
    is_given_up: bool = False
    """Whether it was not processed (to its end) but put aside; see ``Carrier.give_up``."""

    @property
    def size_bytes(self) -> int:
        """Return how large the objects and the outputs are."""
        return sum(map(len, self.objects.values())) + sum([len(each.value or b"") for each in self.outputs])

    def add(self, output: Output) -> None:
        """Add an output of one of its documents."""
        if output.document_key:
            self.document_keys[len(self.outputs)] = output.document_key
            if output.may_be_in_segment:
                self.for_segments[len(self.outputs)] = output.document_key
        self.outputs.append(output.record)
        self.objects.update(output.objects)

    def refer_to(self, index: int, reference: DocumentReference) -> None:
        """Change the reference of an output in the fields that are given.

        Appended to a message, another one of the same type is merged into it when both are parsed: so says the
        protobuf encoding. Here it changes the reference without parsing the stream.
        """
        output = self.outputs[index]
        value = (output.value or b"") + PipeStream(document_ref=reference).SerializeToString()
        self.outputs[index] = output._replace(value=value)

    def move_objects(self, taken: Collection[str]) -> dict[str, bytes]:
        """Give objects names that tell their content, let the outputs refer to those, and return what to store.

        :param taken: the derived names that hold other bytes already, which a committed record may refer to. Those that
            are not among the objects of this record are left alone.
        """
        moved = {key: content_key(key, self.objects[key]) for key in taken if key in self.objects}
        for index, key in self.document_keys.items():
            if key in moved:
                self.refer_to(index, DocumentReference(object_key=moved[key]))
        stored = {name: self.objects.pop(key) for key, name in moved.items()}
        self.objects.update(stored)
        return stored


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carries the arrivals of one entrance, and writes the dead letters of those that fail."""

    entrance: Entrance
    run_id: str
    """Who carries, for dead letters: a run, or the instance of a server."""
    services: Services
    settings: Settings

    def time_hydration(self) -> AbstractContextManager[None]:
        """Return a context manager in which documents are fetched; see ``take_in``."""
        timing: AbstractContextManager[None] = self.services.meter.timed("hydrate")
        return timing

    def carry(
        self,
        arrival: Arrival,
        stream: PipeStream | PipestreamError,
        seen: Callable[[Emission], None] = lambda _: None,
        deadline: float | None = None,
    ) -> RecordResult:
        """Process an arrival at its node and through fused edges; return what leaves.

        It raises what ``follow`` raises: then nothing was decided about the arrival.

        :param stream: what ``take_in`` made of the arrival: its stream, or why there is none.
        :param seen: called with every emission before its document is replaced by a reference, for a caller that
            answers with the document.
        :param deadline: when the caller's time budget ends, by ``time.monotonic``; None: it has none.
        """
        traceparent = header(arrival.record.headers, TRACEPARENT) or ""
        with self.services.meter.processing():
            if not is_traced(traceparent):
                return self._carry(arrival, stream, seen, deadline)
            return self._carry_traced(arrival, stream, seen, deadline, traceparent)

    def _carry_traced(
        self,
        arrival: Arrival,
        stream: PipeStream | PipestreamError,
        seen: Callable[[Emission], None],
        deadline: float | None,
        traceparent: str,
    ) -> RecordResult:
        known = PipeStream() if isinstance(stream, PipestreamError) else stream
        with span(
            f"process {self.entrance.node_id}",
            traceparent,
            known.metadata.trace_id,
            **{
                "pipestream.graph": self.entrance.graph.graph_id,
                "pipestream.topic": arrival.record.topic,
                "pipestream.stream": known.stream_id,
            },
        ) as traced:
            if not known.metadata.trace_id and (trace_id := trace_id_of(traced)):
                known.metadata.trace_id = trace_id
            result = self._carry(arrival, stream, seen, deadline)
            if result.error is not None:
                record_error(traced, result.error)
            if parent := header_of(traced):
                result.outputs = [_with_trace(output, parent) for output in result.outputs]
        return result

    def _carry(
        self,
        arrival: Arrival,
        stream: PipeStream | PipestreamError,
        seen: Callable[[Emission], None],
        deadline: float | None,
    ) -> RecordResult:
        result = RecordResult(arrival.record)
        if isinstance(stream, PipestreamError):
            held = stand_in(arrival, self.entrance) if self.entrance.graph.error_end else None
            never = held or PipeStream(current_node_id=self.entrance.node_id)
            self._add_failure(result, arrival, never, stream, attempts=1, as_dead_letter=held is None)
            self.services.meter.ended(succeeded=False)
            return result
        hops = stream.hop_count
        decisions: list[str] = []
        emissions = follow(
            stream, self.entrance.graph, self.services, self.settings, deadline=deadline, decisions=decisions
        )
        result.decisions = tuple(decisions)
        for emission in emissions:
            seen(emission)
            # A failed stream keeps the hops it came with, so only one that failed at the record's own node
            # still has those of the record.
            self._add(result, arrival, emission, is_entry=emission.stream.hop_count == hops)
        self.services.meter.ended(succeeded=result.error is None)
        return result

    def give_up(
        self, arrival: Arrival, error: PipestreamError, *, attempts: int, as_dead_letter: bool = False
    ) -> RecordResult:
        """Return the result for an arrival that is given up: it fails at its node, and nothing downstream runs.

        Its document is not fetched, since that may be what no process survives; a reference stays the one it is.

        :param as_dead_letter: even if the graph has an error-end.
        """
        result = RecordResult(arrival.record, is_given_up=True)
        try:
            stream, place = read_arrival(arrival, self.entrance)
        except PipestreamError:
            as_dead_letter, stream, place = True, PipeStream(current_node_id=self.entrance.node_id), None
        if place is not None:
            stream.document_ref.object_key = place.key
        self._add_failure(result, arrival, stream, error, attempts, as_dead_letter=as_dead_letter)
        return result

    def _add_failure(
        self,
        result: RecordResult,
        arrival: Arrival,
        stream: PipeStream,
        error: PipestreamError,
        attempts: int,
        *,
        as_dead_letter: bool,
    ) -> None:
        emission = fail(stream, self.entrance.graph, error, attempts, self.services)
        if as_dead_letter:
            emission = replace(emission, outcome=Outcome.DEAD_LETTER)
        self._add(result, arrival, emission, is_entry=True)

    def _add(self, result: RecordResult, arrival: Arrival, emission: Emission, *, is_entry: bool) -> None:
        result.error = emission.error or result.error
        if emission.outcome is Outcome.DEAD_LETTER:
            writer = DeadLetterWriter(self.entrance, self.run_id, self.services.graph_hash, self.services.now)
            result.add(writer.letter_of(emission, arrival, is_entry=is_entry))
            result.dead_letters += 1
            if emission.error is not None:
                self.services.meter.dead_letter(emission.node_id, emission.error)
            return
        result.sent = (*result.sent, emission.counted_as)
        if emission.outcome is not Outcome.HANDED_OVER:
            output = output_of(emission, self.entrance.graph)
            result.add(output)
            edge_id = emission.edge.edge_id if emission.edge else ""
            self.services.meter.sent(
                output.record.topic, MESSAGE_TYPES[emission.outcome], edge_id, [output.record.size_bytes]
            )


def _with_trace(output: OutputRecord, traceparent: str) -> OutputRecord:
    """Add a trace to a record. A dead letter keeps the headers of its record, and so the trace that it came with."""
    if header(output.headers, TRACEPARENT) is not None:
        return output
    return output._replace(headers=(*output.headers, (TRACEPARENT, traceparent.encode())))

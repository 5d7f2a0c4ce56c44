"""Turn a chunk of records into the objects and records that are made of it.

Nothing is sent here: the caller stores the objects, then sends the records and the offsets in one transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

from pipestream.drain.concurrency import Begun, Workers
from pipestream.drain.packing import Packer
from pipestream.drain.range_task import RangeTask
from pipestream.engine.carry import Carrier, RecordResult
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.inline_passing import PassedOn, find_inline_passage
from pipestream.engine.intake import Arrival, Entrance, take_in, take_in_some
from pipestream.engine.passing import Passage, find_passage
from pipestream.engine.process import Services
from pipestream.errors import ModuleDown, PipestreamError, TransientError
from pipestream.graph.model import Graph
from pipestream.ids import record_origin
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.ledger.entries import Tally
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings
from pipestream.telemetry.meter import GatheringMeter
from pipestream.wire import PipeStream

log = logging.getLogger(__name__)


class ChunkResult:
    """The results of a chunk, record by record and in their order, so that a single record can still be given up."""

    def __init__(self, records: Iterable[InputRecord] = ()) -> None:
        """Start with an empty result for each record: a backfill skips those that it does not want."""
        self._results = {(each.partition, each.offset): RecordResult(each) for each in records}

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[RecordResult]:
        return iter(self._results.values())

    def put(self, result: RecordResult) -> None:
        """Replace the result of a record."""
        record = result.record
        self._results[record.partition, record.offset] = result

    def add(self, later: ChunkResult, start: int) -> None:
        """Add the results of a later chunk of one partition, of the records from an offset on."""
        for result in later:
            if result.record.offset >= start:
                self.put(result)

    @property
    def outputs(self) -> list[OutputRecord]:
        return [output for result in self._results.values() for output in result.outputs]

    @property
    def objects(self) -> dict[str, bytes]:
        return {key: data for result in self._results.values() for key, data in result.objects.items()}

    @property
    def size_bytes(self) -> int:
        """Return how large the objects and the outputs are."""
        return _size_of(self._results.values())

    @property
    def has_objects(self) -> bool:
        """Tell whether there is something to store."""
        return any([result.objects for result in self._results.values()])  # noqa: C419 # a fifth of the time

    def pack(self, packer: Packer) -> list[tuple[str, bytes]]:
        """Take the documents that may go into segments out of the objects, and return the segments.

        The outputs refer to the segments from now on, and a segment is never built twice.
        """
        return packer.pack(self._results.values())

    def drop_objects(self) -> None:
        """Forget the objects: they are stored."""
        for result in self._results.values():
            result.objects.clear()

    @property
    def failed(self) -> int:
        """How many records had a document that failed."""
        return sum([result.error is not None for result in self._results.values()])

    @property
    def last_error(self) -> str:
        errors = [result.error for result in self._results.values() if result.error is not None]
        return f"{type(errors[-1]).__name__}: {errors[-1]}" if errors else ""

    def owner(self, index: int) -> RecordResult:
        """Return the result that an output is part of.

        :param index: its place among ``outputs``.
        """
        for result in self._results.values():
            if index < len(result.outputs):
                return result
            index -= len(result.outputs)
        raise IndexError("the chunk has fewer outputs")

    def tally(self, partition: int) -> Tally:
        """Return what became of a partition's records: each partition's range has an entry of its own."""
        results = [result for result in self._results.values() if result.record.partition == partition]
        sent = Counter(chain.from_iterable([result.sent for result in results]))
        decisions = Counter(chain.from_iterable([result.decisions for result in results]))
        return Tally(len(results), dict(sent), sum([result.dead_letters for result in results]), dict(decisions))


def _size_of(results: Iterable[RecordResult]) -> int:
    """Return the sum of ``size_bytes`` of results, in a third of the time that asking each takes."""
    values = [output.value for result in results for output in result.outputs]
    objects = [data for result in results for data in result.objects.values()]
    return sum(map(len, filter(None, values))) + sum(map(len, objects))


def chunk_processor(
    task: RangeTask,
    graph: Graph,
    services: Services,
    store: ObjectStore,
    settings: Settings,
    pool: Executor | None = None,
    width: int = 1,
) -> ChunkProcessor:
    """Return what processes the chunks of a task.

    :param pool: processes ``width`` records of a chunk at once.
    """
    entrance = Entrance(graph, task.node_id, task.lane, task.datasource_id, task.is_live)
    carrier = Carrier(entrance, task.run_id, services, settings)
    packer = Packer(graph, settings)
    return ChunkProcessor(entrance, task.topic_id, task.doc_ids, carrier, store, packer, pool, width)


@dataclass(frozen=True, slots=True)
class HydratedRecords:
    """Records with the streams that they are, documents included."""

    records: Sequence[InputRecord]
    arrivals: Sequence[Arrival]
    """Of those records that the task wants."""
    streams: Sequence[PipeStream | PipestreamError]
    """Of each arrival: its stream, or why there is none."""
    size_bytes: int
    """Of the records and of the documents that were fetched for them."""
    passed: Sequence[RecordResult] = ()
    """The results of records that are passed on as they are. They have no arrivals."""

    @property
    def passed_bytes(self) -> int:
        """Return how large the results are that are there already."""
        return _size_of(self.passed)


NO_RECORDS = HydratedRecords((), (), (), 0)


@dataclass(frozen=True, slots=True)
class ChunkProcessor:
    """Takes the records of a task through the engine, and keeps what is made of each."""

    entrance: Entrance
    topic_id: str
    doc_ids: tuple[str, ...]
    """A backfill of some documents passes over the others; empty: all."""
    carrier: Carrier
    store: ObjectStore
    packer: Packer
    pool: Executor | None = None
    """Where records are processed side by side; None: one after the other."""
    width: int = 1
    """How many records are processed at once."""

    def process(self, records: Sequence[InputRecord]) -> ChunkResult:
        """Decode, hydrate and process records, in order."""
        return self.carry(self.hydrate(records))

    def hydrate(self, records: Sequence[InputRecord], most_bytes: int | None = None) -> HydratedRecords:
        """Decode records and fetch their documents. Those that only have to be passed on are passed on at once.

        :param most_bytes: stop when the fetched documents have so many. Then there are fewer records in the result, and
            at least one.
        """
        passed, left = self._pass_inline(records) or ((), [(record, None) for record in records])
        wants_all = not self.doc_ids and not any(record.headers for record, _ in left)
        arrivals = [self._arrival(*each) for each in left if wants_all or self._is_wanted(each[0])]
        taken = take_in_some(arrivals, self.entrance, self.store, most_bytes, self.carrier.time_hydration)
        if len(taken.streams) < len(arrivals):
            # The rest begins with the first record whose document was not fetched.
            records = records[: records.index(arrivals[len(taken.streams)].record)]
        size_bytes = taken.fetched_bytes + sum([len(record.value or b"") for record in records])
        return HydratedRecords(records, arrivals[: len(taken.streams)], taken.streams, size_bytes, passed)

    def _pass_inline(self, records: Sequence[InputRecord]) -> PassedOn | None:
        """Pass records on with their documents in them, where the node does nothing else; None: nothing is done."""
        if self.doc_ids or self.pool is not None:
            return None
        passage = find_inline_passage(self.entrance, self.carrier.services, self.topic_id)
        return passage.pass_on(records) if passage is not None else None

    def carry(
        self, hydrated: HydratedRecords, patiently: Callable[[Callable[[], Any]], Any] = lambda work: work()
    ) -> ChunkResult:
        """Process hydrated records, in order.

        :param patiently: repeats work that fails for a while, for no fault of the record.
        """
        if self.pool is not None:
            return self.collect(hydrated, self.begin(hydrated, patiently, Workers(self.pool, self.width)).wait())
        self._count_received(hydrated)
        services = self.carrier.services
        meter = GatheringMeter(services.meter)
        carrier = replace(self.carrier, services=replace(services, meter=meter))
        passage = find_passage(self.entrance, carrier.services)
        each = zip(hydrated.arrivals, hydrated.streams, strict=True)
        results = (self._pass_on(*one, passage) or self._carry(*one, carrier, patiently) for one in each)
        try:
            return self.collect(hydrated, results)
        finally:
            meter.flush()

    def begin(
        self, hydrated: HydratedRecords, patiently: Callable[[Callable[[], Any]], Any], workers: Workers[RecordResult]
    ) -> Begun[RecordResult]:
        """Begin to process hydrated records side by side. ``collect`` takes their results."""
        self._count_received(hydrated)

        def carry(one: tuple[Arrival, PipeStream | PipestreamError]) -> RecordResult:
            return self._carry(*one, self.carrier, patiently)

        return workers.begin(carry, list(zip(hydrated.arrivals, hydrated.streams, strict=True)))

    def collect(self, hydrated: HydratedRecords, results: Iterable[RecordResult]) -> ChunkResult:
        """Return the result of a chunk, of which some records may not be wanted and have an empty one."""
        is_whole = len(hydrated.records) in (len(hydrated.arrivals), len(hydrated.passed))
        result = ChunkResult(() if is_whole else hydrated.records)
        for each in chain(hydrated.passed, results):
            result.put(each)
        return result

    def _count_received(self, hydrated: HydratedRecords) -> None:
        if hydrated.records:
            sizes = [len(record.value or b"") for record in hydrated.records]
            self.carrier.services.meter.received(hydrated.records[0].topic, "kafka", sizes)

    def _pass_on(
        self, arrival: Arrival, stream: PipeStream | PipestreamError, passage: Passage | None
    ) -> RecordResult | None:
        if passage is None or isinstance(stream, PipestreamError):
            return None
        try:
            return passage.pass_on(arrival.record, stream)
        except Exception:
            # As in ``follow``, a bug must not stop the records behind this one. The stream may have changed by now.
            log.exception("%s offset %d could not be passed on", arrival.record.topic, arrival.record.offset)
            return self.process_one(arrival.record)

    def _carry(
        self,
        arrival: Arrival,
        stream: PipeStream | PipestreamError,
        carrier: Carrier,
        patiently: Callable[[Callable[[], Any]], Any],
    ) -> RecordResult:
        try:
            return carrier.carry(arrival, stream)
        except ModuleDown:
            raise  # its calls have waited already
        except TransientError as error:
            log.warning("%s offset %d: %s; again", arrival.record.topic, arrival.record.offset, error)
            # From the record on, because the stream may have changed on its way.
            done: RecordResult = patiently(partial(self.process_one, arrival.record))
            return done

    def process_one(self, record: InputRecord) -> RecordResult:
        """Decode, hydrate and process a single record."""
        if not self._is_wanted(record):
            return RecordResult(record)
        arrival = self._arrival(record)
        (stream,) = take_in([arrival], self.entrance, self.store, self.carrier.time_hydration)
        return self.carrier.carry(arrival, stream)

    def give_up(
        self, record: InputRecord, error: PipestreamError, *, attempts: int, as_dead_letter: bool = False
    ) -> RecordResult:
        """Return the result for a record that is given up; see ``Carrier.give_up``."""
        return self.carrier.give_up(self._arrival(record), error, attempts=attempts, as_dead_letter=as_dead_letter)

    def _arrival(self, record: InputRecord, stream: PipeStream | None = None) -> Arrival:
        return Arrival(record, record_origin(self.topic_id, record.topic, record.partition, record.offset), stream)

    def _is_wanted(self, record: InputRecord) -> bool:
        """Tell whether a record is for this task. The key of a record is its document's id.

        A replay is for the graph in which the document failed, and a call to an engine may be for some graphs only.
        """
        if header(record.headers, FOR_GRAPH) not in (None, self.entrance.graph.graph_id):
            return False
        return not self.doc_ids or (record.key or b"").decode("utf-8", "replace") in self.doc_ids

"""Turn a chunk of records into the objects and records that are made of it.

Nothing is sent here: the caller stores the objects, then sends the records and the offsets in one transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipestream.drain.range_task import RangeTask
from pipestream.engine.carry import Carrier, RecordResult
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.engine.intake import Arrival, Entrance, take_in
from pipestream.engine.process import Services
from pipestream.errors import PipestreamError
from pipestream.graph.model import Graph
from pipestream.ids import record_origin
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.ledger.entries import Tally
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings


class ChunkResult:
    """The results of a chunk, record by record and in their order, so that a single record can still be given up."""

    def __init__(self, records: Iterable[InputRecord] = ()) -> None:
        """Start with an empty result for each record: a backfill skips those that it does not want."""
        self._results = {_place(record): RecordResult(record) for record in records}

    def __len__(self) -> int:
        return len(self._results)

    def put(self, result: RecordResult) -> None:
        """Replace the result of a record."""
        self._results[_place(result.record)] = result

    @property
    def outputs(self) -> list[OutputRecord]:
        return [output for result in self._results.values() for output in result.outputs]

    @property
    def objects(self) -> dict[str, bytes]:
        return {key: data for result in self._results.values() for key, data in result.objects.items()}

    @property
    def failed(self) -> int:
        """How many records had a document that failed."""
        return sum(result.error is not None for result in self._results.values())

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
        sent = Counter(name for result in results for name in result.sent)
        return Tally(len(results), dict(sent), sum(result.dead_letters for result in results))


def _place(record: InputRecord) -> tuple[int, int]:
    return record.partition, record.offset


def chunk_processor(
    task: RangeTask, graph: Graph, services: Services, store: ObjectStore, settings: Settings
) -> ChunkProcessor:
    """Return what processes the chunks of a task."""
    entrance = Entrance(graph, task.node_id, task.lane, task.datasource_id, task.is_live)
    carrier = Carrier(entrance, task.run_id, services, settings)
    return ChunkProcessor(entrance, task.topic_id, task.doc_ids, carrier, store)


@dataclass(frozen=True, slots=True)
class ChunkProcessor:
    """Takes the records of a task through the engine, and keeps what is made of each."""

    entrance: Entrance
    topic_id: str
    doc_ids: tuple[str, ...]
    """A backfill of some documents passes over the others; empty: all."""
    carrier: Carrier
    store: ObjectStore

    def process(self, records: Sequence[InputRecord]) -> ChunkResult:
        """Decode, hydrate and process records, in order."""
        result = ChunkResult(records)
        arrivals = [self._arrival(record) for record in records if self._is_wanted(record)]
        meter = self.carrier.services.meter
        if records:
            meter.received(records[0].topic, "kafka", [len(record.value or b"") for record in records])
        with meter.timed("hydrate"):
            streams = take_in(arrivals, self.entrance, self.store)
        for arrival, stream in zip(arrivals, streams, strict=True):
            result.put(self.carrier.carry(arrival, stream))
        return result

    def process_one(self, record: InputRecord) -> RecordResult:
        """Decode, hydrate and process a single record."""
        if not self._is_wanted(record):
            return RecordResult(record)
        arrival = self._arrival(record)
        (stream,) = take_in([arrival], self.entrance, self.store)
        return self.carrier.carry(arrival, stream)

    def give_up(
        self, record: InputRecord, error: PipestreamError, *, attempts: int, as_dead_letter: bool = False
    ) -> RecordResult:
        """Return the result for a record that is given up; see ``Carrier.give_up``."""
        return self.carrier.give_up(self._arrival(record), error, attempts=attempts, as_dead_letter=as_dead_letter)

    def _arrival(self, record: InputRecord) -> Arrival:
        return Arrival(record, record_origin(self.topic_id, record.topic, record.partition, record.offset))

    def _is_wanted(self, record: InputRecord) -> bool:
        """Tell whether a record is for this task. The key of a record is its document's id.

        A replay is for the graph in which the document failed, and a call to an engine may be for some graphs only.
        """
        if header(record.headers, FOR_GRAPH) not in (None, self.entrance.graph.graph_id):
            return False
        return not self.doc_ids or (record.key or b"").decode("utf-8", "replace") in self.doc_ids

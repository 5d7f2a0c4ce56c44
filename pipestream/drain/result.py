"""What the records of a chunk come to, record by record, so that one of them can still be given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipestream.engine.outputs import Output
from pipestream.errors import PipestreamError
from pipestream.kafka.records import InputRecord, OutputRecord
from pipestream.ledger.entries import Tally


@dataclass(slots=True)
class RecordResult:
    """What one record came to."""

    record: InputRecord
    outputs: list[OutputRecord] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    """To be stored before the outputs are sent, which refer to them."""
    sent: list[str] = field(default_factory=list)
    """The ways its documents went, by the names the ledger counts them under."""
    dead_letters: int = 0
    error: PipestreamError | None = None
    """The last failure of a document of this record."""
    is_given_up: bool = False
    """Whether it was not processed (to its end) but put aside; see ``ChunkProcessor.give_up``."""

    def add(self, output: Output) -> None:
        """Add an output of one of its documents."""
        self.outputs.append(output.record)
        self.objects.update(output.objects)


class ChunkResult:
    """What a chunk came to: one result a record, in the order of the records."""

    def __init__(self, records: Iterable[InputRecord] = ()) -> None:
        """Start with nothing come of the records: a backfill passes over those it does not want."""
        self._results = {_place(record): RecordResult(record) for record in records}

    def __len__(self) -> int:
        return len(self._results)

    def put(self, result: RecordResult) -> None:
        """Say what a record came to, in place of what was said before."""
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

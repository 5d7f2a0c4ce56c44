"""What comes back from the Python workers of executors: how each range ended, and what the worker has counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pipestream.arrow import to_table
from pipestream.drain.range_task import RangeOutcome
from pipestream.telemetry.carried import add_counts

ANSWER = "outcome string, counts string"
"""The columns of an answer, as Spark wants them."""
_SCHEMA = pa.schema([pa.field("outcome", pa.string()), pa.field("counts", pa.string())])


def answer_batches(outcomes: Sequence[RangeOutcome], counts: str) -> Iterator[pa.RecordBatch]:
    """Yield the answer of a task.

    :param counts: what its worker has counted for it, from ``counts_since``. The first row has it.
    """
    rows = [{"outcome": each.to_json(), "counts": "" if n else counts} for n, each in enumerate(outcomes)]
    yield from to_table(rows, _SCHEMA).to_batches()


def read_answers(rows: Iterable[tuple[str, str]]) -> list[RangeOutcome]:
    """Return how the ranges ended, and count in this process what the workers have counted.

    Spark keeps one answer of each task, so work that it repeated is counted once, as the ledger does.
    """
    outcomes = []
    for outcome, counts in rows:
        add_counts(counts)
        outcomes.append(RangeOutcome.from_json(outcome))
    return outcomes

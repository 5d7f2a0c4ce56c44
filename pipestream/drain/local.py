"""Run range tasks in this process, for small topics and for tests of everything but Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipestream.drain.model import RangeOutcome, RangeTask, Spread
from pipestream.drain.task import drain_ranges
from pipestream.settings import Settings


def spread_here(settings: Settings) -> Spread:
    """Return a spread that runs one task after the other, here."""

    def spread(tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
        for task in tasks:
            yield from drain_ranges(task, settings)

    return spread

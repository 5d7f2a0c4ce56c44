"""Run range tasks in this process, for small topics and for tests of everything but Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.drain.task import drain_ranges
from pipestream.errors import LeaseLost
from pipestream.settings import Settings


class LocalRunner:
    """Runs one task after the other, here."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lost: LeaseLost | None = None

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
        for task in tasks:
            yield from drain_ranges(task, self._settings, self._check_lease)

    def cancel(self, why: LeaseLost) -> None:
        """Stop before the next transaction."""
        self._lost = why

    def _check_lease(self) -> None:
        if self._lost is not None:
            raise self._lost

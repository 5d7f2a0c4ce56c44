"""Run range tasks in this process, for small topics and for tests of everything but Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from pipestream.drain.garbage import spared_collector
from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.drain.sub_ranges import commit_sub_ranges, process_sub_range
from pipestream.drain.window import drain_task
from pipestream.errors import LeaseLost
from pipestream.offsets.range_reader import RangeBroker
from pipestream.settings import Settings


class LocalRunner:
    """Runs the tasks of a slot one after the other, in the thread that asks."""

    def __init__(self, settings: Settings, broker: RangeBroker | None = None) -> None:
        """
        :param broker: another than the one of the settings; a model of one, in tests.
        """
        self._settings = settings
        self._broker = broker
        self._lost: dict[int | None, LeaseLost] = {}

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
        for task in tasks:
            with spared_collector():
                outcomes = self._run(task)
            yield from outcomes

    def _run(self, task: RangeTask) -> list[RangeOutcome]:
        check_lease = partial(self._check_lease, task.slot)
        if not task.sub_ranges:
            return drain_task(task, self._settings, check_lease, self._broker)
        numbers = range(len(task.sub_ranges))
        # All before the first is committed, as on Spark.
        pieces = [
            piece for number in numbers for piece in process_sub_range(task, number, self._settings, self._broker)
        ]
        return commit_sub_ranges(task, pieces, self._settings, check_lease, self._broker)

    def cancel(self, why: LeaseLost) -> None:
        """Stop the tasks of a slot before their next transaction."""
        self._lost[why.slot] = why

    def _check_lease(self, slot: int) -> None:
        if slot in self._lost:
            raise self._lost[slot]

"""Run range tasks in this process, for small topics and for tests of everything but Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import islice

from pipestream.drain.crash_markers import have_died
from pipestream.drain.garbage import spared_collector
from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.drain.sub_ranges import commit_sub_ranges, process_sub_range
from pipestream.drain.window import drain_task
from pipestream.errors import LeaseLost, StoreRefused, StoreUnavailable
from pipestream.objects.store import open_store
from pipestream.offsets.range_reader import RangeBroker
from pipestream.settings import Settings

# A task waits for Kafka, for the object store and for modules, and leaves Python's lock to others meanwhile.
AT_ONCE = 4
# A signal that arrives just before this thread sleeps, or that another thread receives, does not wake it up.
_SIGNAL_POLL_S = 0.5


class LocalRunner:
    """Runs the tasks of a slot side by side, in threads. Each has its part of the bytes that may be in flight."""

    def __init__(self, settings: Settings, broker: RangeBroker | None = None, at_once: int = AT_ONCE) -> None:
        """
        :param broker: another than the one of the settings; a model of one, in tests.
        :param at_once: how many tasks to run side by side; one runs in the thread that asks.
        """
        self._settings = settings
        self._broker = broker
        self._at_once = at_once
        self._lost: dict[int | None, LeaseLost] = {}

    def __call__(self, tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
        """Yield the outcomes of tasks as they end. A further task begins only when the caller asks for the next one."""
        width = self._find_width(tasks)
        run = _Run(self._settings, width, self._broker, self._lost)
        waiting = iter(tasks)
        if width == 1:
            for task in waiting:
                with spared_collector():
                    outcomes = run.drain(task)
                yield from outcomes
            return
        with spared_collector(), _threads(run, width) as pool:
            running = {pool.submit(run.drain, task) for task in islice(waiting, width)}
            while running:
                ended: set[Future[list[RangeOutcome]]] = set()
                while not ended:
                    ended, running = wait(running, _SIGNAL_POLL_S, FIRST_COMPLETED)
                for each in ended:
                    yield from each.result()
                running |= {pool.submit(run.drain, task) for task in islice(waiting, len(ended))}

    def _find_width(self, tasks: Sequence[RangeTask]) -> int:
        """Return how many tasks may run at once."""
        width = min(self._at_once, len(tasks))
        # What is processed in sub-ranges waits in memory until all of them are done.
        if width <= 1 or any(task.sub_ranges for task in tasks):
            return min(width, 1)
        # The record at which this process ends has to be the only one that it works on.
        try:
            with open_store(self._settings.store_uri, self._settings) as store:
                return 1 if have_died(tasks, store) else width
        except (StoreRefused, StoreUnavailable):
            return 1  # a task waits for the store, and says what is wrong

    def cancel(self, why: LeaseLost) -> None:
        """Stop the tasks of a slot before their next transaction."""
        self._lost[why.slot] = why


class _Run:
    """The tasks of one call, which share what a process may have in flight."""

    def __init__(
        self, settings: Settings, width: int, broker: RangeBroker | None, lost: dict[int | None, LeaseLost]
    ) -> None:
        share = max(1, settings.in_flight_bytes // width)
        self._settings = settings.model_copy(update={"in_flight_bytes": share}) if width > 1 else settings
        self._broker = broker
        self._lost = lost
        self.is_ending = False

    def drain(self, task: RangeTask) -> list[RangeOutcome]:
        settings, check_lease = self._settings, partial(self._check, task)
        if not task.sub_ranges:
            return drain_task(task, settings, check_lease, self._broker)
        numbers = range(len(task.sub_ranges))
        # All before the first is committed, as on Spark.
        pieces = [piece for number in numbers for piece in process_sub_range(task, number, settings, self._broker)]
        return commit_sub_ranges(task, pieces, settings, check_lease, self._broker)

    def _check(self, task: RangeTask) -> None:
        if task.slot in self._lost:
            raise self._lost[task.slot]
        if self.is_ending:
            raise LeaseLost(task.topic, task.slot, "the run was asked to end")


@contextmanager
def _threads(run: _Run, width: int) -> Iterator[ThreadPoolExecutor]:
    """Give threads for tasks. Whatever ends the run early stops the tasks before their next transaction.

    They are waited for: the run gives its lease back when they have ended, and not before.
    """
    with ThreadPoolExecutor(width, thread_name_prefix="drain") as pool:
        try:
            yield pool
        except BaseException:
            run.is_ending = True
            raise

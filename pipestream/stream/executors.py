"""Where a stream's ranges are drained: warm in this process, or by a runner such as Spark's in bounded ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pipestream.drain.range_task import RangeTask, Runner, range_tasks
from pipestream.drain.slot_run import raise_first_failure, run_tasks
from pipestream.drain.task import follow_ranges
from pipestream.drain.window import join_tasks
from pipestream.errors import LeaseLost
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange
from pipestream.offsets.plan import plan_ranges
from pipestream.offsets.tail_reader import OPEN_END, TailBroker
from pipestream.settings import Settings
from pipestream.stream.unrecorded import Unrecorded
from pipestream.stream.watch import Watch
from pipestream.stream.windows import Windows

_LOOK_S = 0.1
# Each partition of a window has a producer, a consumer and modules of its own, which cost some 50 ms to open.
_FEW_PARTITIONS = 8


class Executor(Protocol):
    """Drains a slot until its watch says that it is over."""

    def drain(self, parts: Unrecorded, watch: Watch) -> None:
        """Drain from the positions of ``parts`` on, and count there what was committed; end after a chunk.

        :raises PipestreamError: it cannot continue. What was committed may be more than what is counted.
        """

    def cancel(self, why: LeaseLost) -> None:
        """Stop what is under way before its next transaction: the lease is lost. Called from another thread."""


class WarmExecutor:
    """Drains in this process, with modules, consumer and producer kept open: each partition in a thread of its own."""

    def __init__(self, settings: Settings, *, engine: str = "") -> None:
        """
        :param engine: the address of an engine that processes the documents; empty: this process does.
        """
        self._settings = settings
        self._engine = engine

    def drain(self, parts: Unrecorded, watch: Watch) -> None:
        slot = parts.slot
        ranges = [OffsetRange(parts.topic, p, start, OPEN_END) for p, start in parts.positions.items()]
        broker = TailBroker(self._settings, watch.is_over, is_ordered=slot.is_ordered)
        failures: list[BaseException] = []

        def work(task: RangeTask) -> None:
            try:
                follow_ranges(task, self._settings, parts.check_lease, broker, parts)
            except BaseException as error:
                failures.append(error)
                watch.end()

        threads = [
            threading.Thread(target=work, args=(task,), name=f"stream {parts.topic}{task.offsets[0][0]}", daemon=True)
            for task in (replace(each, engine=self._engine) for each in range_tasks(slot, ranges))
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                watch.look()
                _join_some(threads)
        finally:
            watch.end()
            for thread in threads:
                thread.join()
        for failure in sorted(failures, key=lambda error: getattr(error, "transient", False)):
            raise failure

    def cancel(self, why: LeaseLost) -> None:
        """Nothing to do: the lease is checked before every transaction."""


class RunnerExecutor:
    """Drains what waits with any runner, again and again: Spark's, in a session that stays open.

    A backlog is drained in bounded ranges, each a task. Where little waits, one task drains the partitions in which
    records arrive, and some others, for a window of ``stream_window_s``. The start of a task is then paid once per
    window and not for each chunk. A window occupies a place in the runner even while nothing arrives, so only some may
    be open at once.
    """

    def __init__(
        self,
        settings: Settings,
        runner: Runner,
        cancel: Callable[[LeaseLost], None],
        broker: Broker,
        windows: Windows | None = None,
    ) -> None:
        """
        :param cancel: stops the runner's tasks of a slot.
        :param windows: shared by the streams of the runner; without it there are none.
        """
        self._settings = settings
        self._runner = runner
        self._cancel = cancel
        self._broker = broker
        self._windows = windows or Windows(lambda: 0)

    def drain(self, parts: Unrecorded, watch: Watch) -> None:
        moved: set[int] = set()
        was_in_vain = False
        while not watch.look():
            waiting = self._find_waiting(parts)
            if not waiting:
                watch.wait(_LOOK_S)
                continue
            is_little = sum(map(len, waiting)) <= self._settings.chunk_records
            before = parts.positions
            with self._windows.try_open(is_little and not was_in_vain) as is_open:
                ranges = open_ranges(waiting, before, moved) if is_open else waiting
                self._run(parts, ranges, self._settings.stream_window_s if is_open else 0.0)
            moved = {partition for partition, end in parts.positions.items() if end > before[partition]}
            # On a machine that is too busy a window may pass before the first record is read. A bounded range takes
            # the time it needs.
            was_in_vain = is_open and not moved

    def _find_waiting(self, parts: Unrecorded) -> list[OffsetRange]:
        positions = parts.positions
        marks = self._broker.watermarks(parts.topic, positions)
        return plan_ranges(parts.topic, positions, marks, budget=self._settings.stream_budget)

    def _run(self, parts: Unrecorded, ranges: list[OffsetRange], window_s: float) -> None:
        before = parts.before_next()
        tasks = [_with_unrecorded(task, before) for task in range_tasks(parts.slot, ranges)]
        if window_s:
            tasks = [join_tasks(tasks, window_s)]
        outcomes = run_tasks(self._runner, tasks, parts.check_lease)
        for outcome in outcomes:
            if outcome.end > outcome.start:
                parts.add(outcome.partition, outcome.end, outcome.tally, outcome.busy_s)
        raise_first_failure(outcomes)

    def cancel(self, why: LeaseLost) -> None:
        self._cancel(why)


def open_ranges(
    waiting: Sequence[OffsetRange], positions: Mapping[int, int], moved: Collection[int]
) -> list[OffsetRange]:
    """Return the open ranges of a window.

    They are of the partitions in which something waits, and of those that have just moved. If these are few, others
    are added: a record that arrives in a partition outside of the window waits for its end.
    """
    wanted = {each.partition for each in waiting} | set(moved)
    others = [partition for partition in sorted(positions) if partition not in wanted]
    wanted.update(others[: max(0, _FEW_PARTITIONS - len(wanted))])
    return [OffsetRange(waiting[0].topic, partition, positions[partition], OPEN_END) for partition in sorted(wanted)]


def _with_unrecorded(task: RangeTask, before: tuple[tuple[int, int, str], ...]) -> RangeTask:
    own = {partition for partition, _, _ in task.offsets}
    return replace(task, unrecorded=tuple(each for each in before if each[0] in own))


def _join_some(threads: list[threading.Thread]) -> None:
    """Wait a moment for one of the threads that are alive."""
    for thread in threads:
        if thread.is_alive():
            thread.join(_LOOK_S)
            return

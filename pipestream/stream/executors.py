"""Where a stream's ranges are drained: warm in this process, or by a runner such as Spark's in bounded ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pipestream.drain.range_task import RangeTask, Runner, range_tasks
from pipestream.drain.slot_run import raise_first_failure, run_tasks
from pipestream.drain.task import follow_ranges
from pipestream.errors import LeaseLost
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange
from pipestream.offsets.plan import plan_ranges
from pipestream.offsets.tail_reader import OPEN_END, TailBroker
from pipestream.settings import Settings
from pipestream.stream.unrecorded import Unrecorded
from pipestream.stream.watch import Watch

_LOOK_S = 0.1


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
    """Drains what waits in bounded ranges, again and again, with any runner: Spark's, in a session that stays open."""

    def __init__(self, settings: Settings, runner: Runner, cancel: Callable[[LeaseLost], None], broker: Broker) -> None:
        """
        :param cancel: stops the runner's tasks of a slot.
        """
        self._settings = settings
        self._runner = runner
        self._cancel = cancel
        self._broker = broker

    def drain(self, parts: Unrecorded, watch: Watch) -> None:
        slot, topic = parts.slot, parts.topic
        while not watch.look():
            positions = parts.positions
            marks = self._broker.watermarks(topic, positions)
            ranges = plan_ranges(topic, positions, marks, budget=self._settings.stream_budget)
            if not ranges:
                watch.wait(_LOOK_S)
                continue
            before = parts.before_next()
            tasks = [_with_unrecorded(task, before) for task in range_tasks(slot, ranges)]
            outcomes = run_tasks(self._runner, tasks, parts.check_lease)
            for outcome in outcomes:
                if outcome.end > outcome.start:
                    parts.add(outcome.partition, outcome.end, outcome.tally)
            raise_first_failure(outcomes)

    def cancel(self, why: LeaseLost) -> None:
        self._cancel(why)


def _with_unrecorded(task: RangeTask, before: tuple[tuple[int, int, str], ...]) -> RangeTask:
    own = {partition for partition, _, _ in task.offsets}
    return replace(task, unrecorded=tuple(each for each in before if each[0] in own))


def _join_some(threads: list[threading.Thread]) -> None:
    """Wait a moment for one of the threads that are alive."""
    for thread in threads:
        if thread.is_alive():
            thread.join(_LOOK_S)
            return

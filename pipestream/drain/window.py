"""Drain what arrives within a window of time: what a stream gives a runner whose every task costs something to start.

A Spark job for each chunk takes longer than the chunk. So a task stays for a window, with its clients open, and commits
records as they arrive. The ranges of such a task are open. Each partition has a thread, and is drained as by any task:
its producer fences every earlier one, and only then it reads the committed offset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pipestream.drain.range_task import RangeOutcome, RangeTask, unordered_ids
from pipestream.drain.task import drain_ranges
from pipestream.offsets.range_reader import RangeBroker
from pipestream.offsets.tail_reader import TailBroker
from pipestream.settings import Settings


def drain_task(
    task: RangeTask,
    settings: Settings,
    check_lease: Callable[[], None] = lambda: None,
    broker: RangeBroker | None = None,
) -> list[RangeOutcome]:
    """Drain the ranges of a task up to their ends; those of a task with a window, until the window closes.

    The parameters are those of ``drain_ranges``. An error in one partition of a window ends the others after their
    chunk.
    """
    if not task.window_s:
        return drain_ranges(task, settings, check_lease, broker)
    has_failed = threading.Event()

    def drain(part: RangeTask) -> list[RangeOutcome]:
        window = _Window(task.window_s, has_failed)
        outcomes: list[RangeOutcome] = []
        try:
            tail = TailBroker(settings, window.is_over, is_ordered=task.is_ordered)
            outcomes = drain_ranges(part, settings, check_lease, tail)
        finally:
            if not outcomes or any(outcome.error for outcome in outcomes):
                has_failed.set()
        return outcomes

    parts = [task] if task.is_ordered else split_task(task)
    with ThreadPoolExecutor(len(parts), thread_name_prefix="window") as pool:
        return [outcome for outcomes in pool.map(drain, parts) for outcome in outcomes]


def join_tasks(tasks: Sequence[RangeTask], window_s: float) -> RangeTask:
    """Return one task with a window for tasks of the same slot."""
    return replace(
        tasks[0],
        offsets=tuple(each for task in tasks for each in task.offsets),
        transactional_ids=tuple(dict.fromkeys(each for task in tasks for each in task.transactional_ids)),
        unrecorded=tuple(each for task in tasks for each in task.unrecorded),
        window_s=window_s,
    )


def split_task(task: RangeTask) -> list[RangeTask]:
    """Return the tasks that ``join_tasks`` joined, one per partition, without the window."""
    return [
        replace(
            task,
            offsets=(offsets,),
            transactional_ids=unordered_ids(task.group, task.topic, offsets[0]),
            unrecorded=tuple(each for each in task.unrecorded if each[0] == offsets[0]),
            window_s=0.0,
        )
        for offsets in task.offsets
    ]


class _Window:
    """Opens when it is first looked at: until then the clients connect, which must not use up the time."""

    def __init__(self, window_s: float, has_failed: threading.Event) -> None:
        self._window_s = window_s
        self._has_failed = has_failed
        self._closes_at: float | None = None

    def is_over(self) -> bool:
        now = time.monotonic()
        if self._closes_at is None:
            self._closes_at = now + self._window_s
        return self._has_failed.is_set() or now >= self._closes_at

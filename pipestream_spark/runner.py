"""Run range tasks in a Spark session, one Spark task a range."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.errors import LeaseLost, TasksFailed
from pipestream_spark.answers import ANSWER, read_answers
from pipestream_spark.environment import executor_environment
from pipestream_spark.failures import cause_of
from pipestream_spark.session import session_builder
from pipestream_spark.two_stages import sub_range_query
from pipestream_spark.worker import Orders, SubRangeOrders, drain_numbered

log = logging.getLogger(__name__)

# A cluster starts executors within some seconds, one soon after the other.
_EXECUTORS_S = 15.0
_SETTLED_S = 1.0
_EXECUTORS_POLL_S = 0.1


class SparkRunner:
    """Starts Spark only when there is something to run, so that a run with nothing to do needs no session."""

    def __init__(self, app_name: str, find_session: Callable[[], SparkSession] | None = None) -> None:
        """
        :param find_session: returns a session that others use too; without it the runner has one of its own.
        """
        self._app_name = app_name
        self._find_session = find_session
        self._session: SparkSession | None = None
        self._name = f"drain-{uuid.uuid4()}"
        self._slots: set[int] = set()
        self._cancelled: set[int] = set()
        self._is_ending = threading.Event()
        self._opening = threading.Lock()

    def __call__(self, tasks: Sequence[RangeTask]) -> list[RangeOutcome]:
        """Run the tasks of a slot, side by side. Threads may call this for several slots at once.

        :raises TasksFailed: Spark gave up on them, or they were cancelled.
        """
        slot = tasks[0].slot
        self._slots.add(slot)
        self._check_cancelled(slot)
        with self._opening:
            session = self._session = self._open_session()
        # Checked after ``cancel`` can see the session: a cancel is either noticed here, or stops what starts below.
        self._check_cancelled(slot)
        # Both properties belong to this thread alone: PySpark gives each Python thread its own JVM thread.
        session.sparkContext.setJobGroup(self.job_group(slot), self._app_name)
        session.sparkContext.setLocalProperty("spark.scheduler.pool", f"slot-{slot}")
        try:
            answers = _spread(session, tasks).collect()
        except (PySparkException, Py4JError, OSError) as error:  # OSError: the JVM is gone
            self._check_cancelled(slot)
            raise TasksFailed(cause_of(error)) from error
        return read_answers((row.outcome, row.counts) for row in answers)

    def find_task_slots(self) -> int:
        """Return how many tasks Spark runs at once, of all that use the session. Starts Spark if it is not up."""
        with self._opening:
            session = self._session = self._open_session()
        return count_task_slots(session.sparkContext)

    def cancel(self, why: LeaseLost) -> None:
        """Stop the tasks of a slot, and let none start. May be called at any time from any thread."""
        self._cancel_slot(why.slot or 0)

    def cancel_all(self) -> None:
        """Stop the tasks of every slot, and let none start."""
        self._is_ending.set()
        for slot in list(self._slots):
            self._cancel_slot(slot)

    def _cancel_slot(self, slot: int) -> None:
        self._cancelled.add(slot)
        if self._session is not None:
            # Not cancelAllJobs, which does nothing to a job that starts a moment later.
            self._session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self.job_group(slot))

    def job_group(self, slot: int) -> str:
        """Return the name under which Spark knows the jobs of a slot."""
        return f"{self._name}-{slot}"

    def _check_cancelled(self, slot: int) -> None:
        if slot in self._cancelled or self._is_ending.is_set():
            raise TasksFailed("they were cancelled")

    def _open_session(self) -> SparkSession:
        if self._find_session is not None:
            return self._find_session()
        return self._session or drain_session(self._app_name)

    def close(self) -> None:
        """Stop the session, if it was started and is this runner's own."""
        if self._session is not None and self._find_session is None:
            self._session.stop()


def drain_session(app_name: str, options: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session for drains.

    :param options: what else to set.
    """
    # A speculative copy of a slow task fences the task. Spark then ends the copy, because the first answer wins.
    builder = session_builder(app_name).config("spark.speculation", "false")
    # Slots share the executors evenly. By default, the ranges of one slot would wait for those of another.
    builder = builder.config("spark.scheduler.mode", "FAIR")
    for name, value in (options or {}).items():
        builder = builder.config(name, value)
    for name, value in executor_environment().items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    session = builder.getOrCreate()
    if url := session.sparkContext.uiWebUrl:
        log.info("Spark UI at %s", url)  # the drain operator makes a link of this line
    return session


def count_task_slots(context: SparkContext) -> int:
    """Return how many tasks run at once, when the executors of a cluster have had the time to report.

    A new session has none yet, and would say 2.
    """
    deadline = time.monotonic() + _EXECUTORS_S
    slots, since = 0, time.monotonic()
    while not (context.master or "").startswith("local"):
        found, now = _registered_slots(context), time.monotonic()
        if found != slots:
            slots, since = found, now
        if now > deadline or (slots and now - since > _SETTLED_S):
            break
        time.sleep(_EXECUTORS_POLL_S)
    return int(context.defaultParallelism)


def _registered_slots(context: SparkContext) -> int:
    """Return the parallelism, or 0 while no executor is there. The driver is in the list too."""
    executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1
    return int(context.defaultParallelism) if executors else 0


def _spread(session: SparkSession, tasks: Sequence[RangeTask]) -> DataFrame:
    """Return the query of the outcomes. It has a slice for each task: a range is the unit of work and of retry.

    The tasks are in the function itself, which every slice gets whole. That halves the time of a small job, because no
    other Python process has to turn rows into a table first.
    """
    orders = Orders.of(tasks)
    if any(task.sub_ranges for task in tasks):
        query: DataFrame = sub_range_query(session, SubRangeOrders.of(tasks, orders))
        return query
    return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(partial(drain_numbered, orders), ANSWER)

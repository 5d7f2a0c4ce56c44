"""Run range tasks on a Spark Connect server, one Spark task a range. This process needs no JVM."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import grpc
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

from pipestream.drain.range_task import RangeOutcome, RangeTask
from pipestream.errors import LeaseLost, TasksFailed
from pipestream.settings import Settings
from pipestream_spark.answers import ANSWER, read_answers
from pipestream_spark.environment import connect_environment
from pipestream_spark.failures import cause_of
from pipestream_spark.two_stages import sub_range_query
from pipestream_spark.worker import Orders, SubRangeOrders, drain_numbered

log = logging.getLogger(__name__)

_INTERRUPT_AGAIN_S = 0.25
_SLICES = re.compile(r"\bsplits=(\d+)")


class ConnectRunner:
    """Runs the tasks of one run in the session that all drains share."""

    def __init__(self, session: SparkSession, settings: Settings, variables: Mapping[str, str] | None = None) -> None:
        """
        :param session: from ``open_session``; ``close`` closes it.
        :param variables: as for ``connect_environment``.
        """
        self._session = session
        self._store_uri = settings.store_uri
        self._variables = variables
        self._name = f"drain-{uuid.uuid4()}"
        self._cancelled: set[int] = set()
        self._running: dict[int, threading.Event] = {}
        self._is_ending = threading.Event()

    def __call__(self, tasks: Sequence[RangeTask]) -> list[RangeOutcome]:
        """Run the tasks of a slot, side by side. Threads may call this for several slots at once.

        :raises TasksFailed: Spark gave up on them, they were cancelled, or the server is gone.
        """
        slot = tasks[0].slot
        is_done = self._running[slot] = threading.Event()
        self._session.addTag(self.tag(slot))  # of this thread alone
        try:
            # After ``cancel`` can see that it runs: a cancel is either noticed here, or interrupts what starts below.
            self._check_cancelled(slot)
            answers = self._query(tasks).toArrow()
        except (PySparkException, grpc.RpcError) as error:
            self._check_cancelled(slot)
            raise TasksFailed(cause_of(error)) from error
        except BaseException:  # Ctrl-C, or a signal that ends the process
            self._interrupt_once(slot)
            raise
        finally:
            is_done.set()
            self._session.removeTag(self.tag(slot))
        return read_answers(zip(*(answers.column(name).to_pylist() for name in ("outcome", "counts")), strict=True))

    def _query(self, tasks: Sequence[RangeTask]) -> DataFrame:
        orders = Orders.of(tasks, connect_environment(self._variables), self._store_uri)
        if any(task.sub_ranges for task in tasks):
            query: DataFrame = sub_range_query(self._session, SubRangeOrders.of(tasks, orders))
            return query
        numbers = self._session.range(0, len(tasks), 1, len(tasks))
        return cast("DataFrame", numbers.mapInArrow(partial(drain_numbered, orders), ANSWER))

    def find_task_slots(self) -> int:
        """Return how many tasks the server runs at once, of all drains that it has.

        A client cannot ask for it. But a range is cut into as many slices unless it is told otherwise, and its plan
        says how many. To run the query would wait for a free core, and nothing would cancel it.

        :raises TasksFailed: the server does not answer.
        """
        try:
            plan = self._session.sql("EXPLAIN SELECT id FROM range(1)").toArrow().column("plan").to_pylist()[0]
        except (PySparkException, grpc.RpcError) as error:
            raise TasksFailed(cause_of(error)) from error
        found = _SLICES.search(plan)
        if found is None:
            raise TasksFailed(f"the plan of a range on the Spark Connect server does not say its slices: {plan}")
        return int(found[1])

    def cancel(self, why: LeaseLost) -> None:
        """Stop the tasks of a slot, and let none start. May be called at any time from any thread."""
        self._cancel_slot(why.slot or 0)

    def cancel_all(self) -> None:
        """Stop the tasks of every slot, and let none start. Waits for nothing, so a signal handler may call it."""
        self._is_ending.set()
        for slot in list(self._running):
            self._cancel_slot(slot)

    def _cancel_slot(self, slot: int) -> None:
        self._cancelled.add(slot)
        is_done = self._running.get(slot)
        if is_done is not None and not is_done.is_set():
            threading.Thread(target=self._interrupt, args=(slot, is_done), name="interrupt", daemon=True).start()

    def _interrupt(self, slot: int, is_done: threading.Event) -> None:
        """Interrupt the query of a slot until it has ended. It may not have reached the server the first time."""
        while not is_done.is_set():
            self._interrupt_once(slot)
            is_done.wait(_INTERRUPT_AGAIN_S)

    def _interrupt_once(self, slot: int) -> None:
        try:
            self._session.interruptTag(self.tag(slot))
        except (PySparkException, grpc.RpcError, ValueError) as error:  # ValueError: the channel is closed
            log.warning("the drain cannot be cancelled on the Spark Connect server: %s", error)

    def tag(self, slot: int) -> str:
        """Return the tag under which the server knows the query of a slot."""
        return f"{self._name}-{slot}"

    def _check_cancelled(self, slot: int) -> None:
        if slot in self._cancelled or self._is_ending.is_set():
            raise TasksFailed("they were cancelled")

    def close(self) -> None:
        """Close the connection. The session stays open on the server for the next drain."""
        self._session.client.close()

"""One run over one topic: take the lease of every free slot, and drain the slots side by side.

Lease, reconcile, plan, drain, record, release: the first and the last are here, the others in ``slot_run.py`` and in
the lane.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from zlib import crc32

from pipestream import faults
from pipestream.drain.cost_history import CostHistory
from pipestream.drain.range_task import Runner
from pipestream.drain.report import DRAINED, SKIPPED, DrainReport, join_reports
from pipestream.drain.request import DrainRequest
from pipestream.drain.side_by_side import run_side_by_side
from pipestream.drain.slot_run import SlotRun
from pipestream.drain.topics_there import await_topic
from pipestream.drain.wanted import wanted_slots, why_not_in_batches
from pipestream.errors import LeaseLost, LeaseUnavailable, PipestreamError
from pipestream.graph.flow import check_drained
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.names import is_of_run, name_holder
from pipestream.leases.store import Lease, LeaseStore
from pipestream.ledger import Ledger
from pipestream.settings import Settings

log = logging.getLogger(__name__)


def run_drain(
    request: DrainRequest,
    settings: Settings,
    runner: Runner,
    *,
    leases: LeaseStore,
    find_graph: Callable[[str], Graph] | None = None,
    on_lease_lost: Callable[[LeaseLost], None] | None = None,
    broker: Broker | None = None,
) -> DrainReport:
    """Drain what waits in a topic: every slot of it that is free, side by side, each up to the budget.

    A backfill covers all partitions, and runs next to the live runs: its lane is its own, and so is its lease.
    Skips what another run holds, what the operator has stopped, and what the graph's file says to leave alone.

    :param runner: runs the range tasks of a slot, over Spark or in this process. Several threads call it, each for a
        slot of its own.
    :param find_graph: gives the graph of a hash. A retry uses the graph its plan was made with, even if another
        has been applied since.
    :param on_lease_lost: called if the lease of a slot is lost while its tasks run, to stop the tasks of that slot. The
        error names the slot. Called for every slot at work when the run itself has to end.
    :param broker: another to ask than the one of the settings; a model of one, in tests.
    :raises RangeFailed: a task stopped early; what was done up to there is recorded.
    :raises LedgerConflict: another run recorded the same ranges first; nothing was changed.
    :raises RequestInvalid: the graph does not drain the topic.

    An error is raised after the slots that it does not concern have been drained. After an error with a lease no other
    slot begins, because its cause may affect the other leases too.
    """
    check_drained(request.graph, request.topic)
    started = time.monotonic()
    run = _Run(request, settings, runner, leases, find_graph, on_lease_lost, broker or Broker(settings))
    run.drain()
    run.raise_worst()
    return run.report(time.monotonic() - started)


class _Run:
    """One run, and what became of its slots. Its slots are drained in threads, which share it."""

    def __init__(
        self,
        request: DrainRequest,
        settings: Settings,
        runner: Runner,
        leases: LeaseStore,
        find_graph: Callable[[str], Graph] | None,
        on_lease_lost: Callable[[LeaseLost], None] | None,
        broker: Broker,
    ) -> None:
        self._request = request
        self._settings = settings
        self._runner = runner
        self._leases = leases
        self._find_graph = find_graph
        self._on_lease_lost = on_lease_lost
        self._broker = broker
        self._history = CostHistory(Ledger(settings), request.graph.graph_id, request.topic)
        self._holder = name_holder(request.run_id)
        self._guard = threading.Lock()
        self._waiting: deque[int] = deque()
        """Slots that no thread has tried yet."""
        self._at_work: set[int] = set()
        self._is_closed = False
        """Whether no other slot begins."""
        self._is_ending = False
        """Whether those at work are to stop."""
        # These lists only grow, by one append at a time, which needs no lock.
        self._notes: list[str] = []
        """Why slots were left alone."""
        self._reports: list[DrainReport] = []
        self._errors: list[PipestreamError] = []

    def drain(self) -> None:
        """Drain the slots, at most ``max_slots`` that have something to drain.

        Each worker drains one slot that has something to drain, and skips those that are empty or leased.
        """
        request, limit = self._request, self._settings.max_slots
        if reason := self._refuse() or await_topic(request, self._settings, self._broker, self._refuse):
            self._close(reason)
            return
        _, replicas = self._look()
        slots = _slot_order(request, replicas)
        self._waiting.extend(slots)
        run_side_by_side(self._work, min(len(slots), limit), self._interrupt)
        if self._waiting:
            self._close(f"the other slots are left to the next run: one drains at most {limit}")

    def raise_worst(self) -> None:
        """Raise the error that needs a person, if there is one, else the first that only needs a retry."""
        for error in sorted(self._errors, key=lambda error: (error.transient, -error.concerns.width)):
            raise error

    def report(self, seconds: float) -> DrainReport:
        """Return one report for all slots."""
        request = self._request
        total = DrainReport(
            SKIPPED, request.topic, seconds=round(seconds, 3), run_id=request.run_id, lane=request.lane.name
        )
        return join_reports(self._reports, self._notes, total)

    def _work(self) -> None:
        try:
            while (slot := self._next_slot()) is not None:
                if self._drain_slot(slot):
                    return
        except PipestreamError as error:  # of the lease store, so that other slots could not be leased either
            self._errors.append(error)
            self._close("the other slots are left to the next run: their leases cannot be asked for")

    def _look(self) -> tuple[str, int]:
        """Return why the topic is not to be drained (empty if it is), and in how many slots it is."""
        graph, topic, lane = self._request.graph, self._request.topic, self._request.lane
        desired = self._leases.desired(topic)
        reason = why_not_in_batches(graph, topic, desired, is_live=lane.is_live)
        return reason, lane.slots(wanted_slots(graph, topic, desired))

    def _refuse(self) -> str:
        return self._look()[0]

    def _next_slot(self) -> int | None:
        with self._guard:
            return self._waiting.popleft() if self._waiting and not self._is_closed else None

    def _drain_slot(self, slot: int) -> bool:
        """Drain a slot if it is free, and return whether there was something to drain."""
        request = self._request
        # Asked again for every slot: stopping a topic, or scaling it down, also holds in the middle of a run.
        reason, replicas = self._look()
        if reason:
            self._close(reason)
            return False
        if slot >= replicas:
            return False
        try:
            lease = _acquire(self._leases, request, slot, self._holder, self._settings.lease_ttl_s)
        except LeaseUnavailable as error:
            self._notes.append(str(error))
            return False
        with LeaseKeeper(self._leases, lease, on_lost=self._on_lease_lost) as keeper:
            faults.reach(faults.LEASE_ACQUIRED)
            report = self._drain_held(lease, replicas, keeper)
        if keeper.lost.is_set():
            self._close("the other slots are left to the next run: a lease was lost")
        if report is None:
            return False
        request.lane.finish(request.topic, self._leases)
        self._reports.append(report)
        return report.status == DRAINED

    def _drain_held(self, lease: Lease, replicas: int, keeper: LeaseKeeper) -> DrainReport | None:
        """Drain a slot whose lease is held; None if it failed, which must not keep the other slots waiting."""
        run = SlotRun(self._request, self._settings, lease, replicas, self._find_graph, self._broker, self._history)
        self._at_work.add(lease.slot)
        try:
            if self._is_ending:
                self._stop(lease.slot)
            return run.execute(self._runner, keeper.check)
        except PipestreamError as error:
            log.warning("%s slot %d: %s", self._request.topic, lease.slot, error)
            self._errors.append(error)
            return None
        finally:
            self._at_work.discard(lease.slot)

    def _close(self, reason: str) -> None:
        """Let no other slot begin, and note why; the first reason counts."""
        with self._guard:
            if not self._is_closed:
                self._notes.append(reason)
            self._is_closed = True

    def _interrupt(self) -> None:
        """Stop the tasks of all slots: this run has to end."""
        self._close("the run was asked to end")
        self._is_ending = True  # before the others are stopped: one that begins now stops itself
        for slot in list(self._at_work):
            self._stop(slot)

    def _stop(self, slot: int) -> None:
        if self._on_lease_lost is not None:
            self._on_lease_lost(LeaseLost(self._request.lease_name, slot, "the run was asked to end"))


def _slot_order(request: DrainRequest, replicas: int) -> list[int]:
    """Return the slots in the order to try them, which starts elsewhere for each run, but not for its retries.

    Where there are more slots than one run may drain, those at the end would otherwise never have their turn.
    """
    first = crc32(request.run_id.encode()) % replicas
    return [*range(first, replicas), *range(first)]


def _acquire(leases: LeaseStore, request: DrainRequest, slot: int, holder: str, ttl_s: float) -> Lease:
    """Take a slot of the topic. A lease that an earlier try of this very run left behind is waited out."""
    deadline = time.monotonic() + leases.longest_expiry_s(ttl_s)
    while True:
        try:
            return leases.acquire(request.lease_name, slot, holder, ttl_s)
        except LeaseUnavailable as error:
            if not is_of_run(error.holder, request.run_id) or time.monotonic() > deadline:
                raise
            log.info("an earlier try of this run died holding the lease; waiting for it to expire")
            leases.wait_free(request.lease_name, slot, deadline - time.monotonic())

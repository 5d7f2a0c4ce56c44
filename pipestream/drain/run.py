"""One run over one topic: take the lease of every free slot, and drain it.

Lease, reconcile, plan, drain, enter, release: the first and the last are here, reconcile and plan in ``slot_plan.py``,
drain and enter in ``slot_run.py``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from zlib import crc32

from pipestream import faults
from pipestream.drain.check import refuse
from pipestream.drain.holder import is_of_run, name_holder
from pipestream.drain.range_task import Runner
from pipestream.drain.report import DRAINED, SKIPPED, DrainReport, join_reports
from pipestream.drain.request import DrainRequest
from pipestream.drain.slot_run import SlotRun
from pipestream.errors import LeaseLost, LeaseUnavailable, PipestreamError
from pipestream.graph.flow import check_drained, topic_targets
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.store import DesiredState, Lease, LeaseStore
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
    """Drain what waits in a topic: every slot of it that is free, one after the other, each up to the budget.

    A backfill covers all partitions, and goes on beside the live runs: its lane is its own, and so is its lease.
    Skips what another run holds, and what the operator has stopped.

    :param runner: runs the range tasks, over Spark or in this process.
    :param find_graph: gives the graph of a hash. A retry uses the graph its plan was made with, even if another
        has been applied since.
    :param on_lease_lost: called once if the lease is lost while tasks run, to stop them.
    :param broker: another to ask than the one of the settings; a model of one, in tests.
    :raises RangeFailed: a task stopped early; what was done up to there is entered.
    :raises LedgerConflict: another run entered the same ranges first; nothing was changed.
    :raises RequestInvalid: the graph does not drain the topic.

    An error is raised after the slots that it does not concern have been drained; only trouble with leases ends the
    run there, since whatever it comes from may have taken the others too.
    """
    check_drained(request.graph, request.topic)
    started = time.monotonic()
    holder = name_holder(request.run_id)
    broker = broker or Broker(settings)
    slots = _Slots()
    with slots.keeping_errors():
        for slot in _slot_order(request, _desired(leases, request).replicas):
            # Asked anew for every slot: stopping a topic, or scaling it down, also holds in the middle of a run.
            desired = _desired(leases, request)
            if reason := refuse(request, desired):
                slots.notes.append(reason)
                break
            if slots.drained == settings.max_slots:
                slots.notes.append(f"the other slots are left to the next run: one drains at most {settings.max_slots}")
                break
            if slot >= desired.replicas:
                continue
            try:
                lease = _acquire(leases, request, slot, holder, settings.lease_ttl_s)
            except LeaseUnavailable as error:
                slots.notes.append(str(error))
                continue
            with LeaseKeeper(leases, lease, on_lost=on_lease_lost) as keeper:
                faults.reach(faults.LEASE_ACQUIRED)
                run = SlotRun(request, settings, lease, desired.replicas, find_graph, broker)
                slots.run(run, runner, keeper)
            if not slots.errors:
                request.lane.finish(request.topic, leases)
            if keeper.lost.is_set():
                slots.notes.append("the other slots are left to the next run: a lease was lost")
                break
    slots.raise_worst()
    return slots.report(request, time.monotonic() - started)


class _Slots:
    """What became of the slots of one run."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """Why slots were left alone."""
        self._reports: list[DrainReport] = []
        self.errors: list[PipestreamError] = []

    @property
    def drained(self) -> int:
        """Return how many slots had something to drain."""
        return sum(report.status == DRAINED for report in self._reports)

    def run(self, run: SlotRun, runner: Runner, keeper: LeaseKeeper) -> None:
        """Drain one slot. Its failure must not keep the others waiting, who may have nothing to do with it."""
        try:
            self._reports.append(run.execute(runner, keeper.check))
        except PipestreamError as error:
            log.warning("%s slot %d: %s", run.request.topic, run.lease.slot, error)
            self.errors.append(error)

    @contextmanager
    def keeping_errors(self) -> Iterator[None]:
        """Keep an error that ends the run, lest it hide a worse one of a slot before."""
        try:
            yield
        except PipestreamError as error:
            self.errors.append(error)

    def raise_worst(self) -> None:
        """Raise what needs a person, if anything does, else the first thing that only needs a retry."""
        for error in sorted(self.errors, key=lambda error: error.transient):
            raise error

    def report(self, request: DrainRequest, seconds: float) -> DrainReport:
        """Return one report for all slots."""
        total = DrainReport(
            SKIPPED, request.topic, seconds=round(seconds, 3), run_id=request.run_id, lane=request.lane.name
        )
        return join_reports(self._reports, self.notes, total)


def _desired(leases: LeaseStore, request: DrainRequest) -> DesiredState:
    """Return what is wanted of the topic, as far as this run can give it."""
    desired = leases.desired(request.topic)
    node_id = topic_targets(request.graph)[request.topic]
    # Order across partitions takes one reader of them all.
    is_ordered = request.graph.node_by_id[node_id].is_ordered
    return replace(desired, replicas=1 if is_ordered else request.lane.slots(desired.replicas))


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

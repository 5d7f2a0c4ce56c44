"""One run over one topic: take the lease of every free slot, and drain it.

Lease, reconcile, plan, drain, enter, release: the first and the last are here, the others in ``slot_run.py``.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence

from pipestream import faults
from pipestream.drain.broker import Broker
from pipestream.drain.model import DrainReport, DrainRequest, Spread
from pipestream.drain.slot_run import SlotRun
from pipestream.errors import LeaseLost, LeaseUnavailable
from pipestream.graph.model import Graph
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.store import Lease, LeaseStore
from pipestream.ledger import Tally
from pipestream.settings import Settings

log = logging.getLogger(__name__)


def run_drain(
    request: DrainRequest,
    settings: Settings,
    spread: Spread,
    *,
    leases: LeaseStore,
    find_graph: Callable[[str], Graph] | None = None,
    on_lease_lost: Callable[[LeaseLost], None] | None = None,
    broker: Broker | None = None,
) -> DrainReport:
    """Drain what waits in a topic: every slot of it that is free, one after the other, each up to the budget.

    A backfill takes one slot and covers all partitions: its lane is its own, so the lease only keeps it from
    running beside a live run of that slot.

    :param spread: runs the range tasks, over Spark or in this process.
    :param find_graph: gives the graph of a hash. A retry uses the graph its plan was made with, even if another
        has been applied since.
    :param on_lease_lost: called once if the lease is lost while tasks run, to stop them.
    :param broker: another to ask than the one of the settings; a model of one, in tests.
    :raises RangeFailed: a task stopped early; what was done up to there is entered.
    :raises LedgerConflict: another run entered the same ranges first; nothing was changed.
    """
    started = time.monotonic()
    holder = f"{request.run_id}@{socket.gethostname()}:{os.getpid()}"
    reports: list[DrainReport] = []
    busy: list[LeaseUnavailable] = []
    slot = 0
    # Asked anew for every slot: scaling down in the middle of a run gives up the highest slots first.
    while slot < (replicas := _replicas(leases, request)) and len(reports) < settings.max_slots:
        try:
            lease = _acquire(leases, request, slot, holder, settings.lease_ttl_s)
        except LeaseUnavailable as error:
            busy.append(error)
        else:
            with LeaseKeeper(leases, lease, on_lost=on_lease_lost) as keeper:
                faults.reach(faults.LEASE_ACQUIRED)
                run = SlotRun(request, settings, lease, replicas, find_graph, broker or Broker(settings))
                reports.append(run.execute(spread, keeper.check))
        slot += 1
    return _combine(request.topic, reports, busy, time.monotonic() - started)


def _replicas(leases: LeaseStore, request: DrainRequest) -> int:
    return 1 if request.backfill else leases.desired(request.topic).replicas


def _acquire(leases: LeaseStore, request: DrainRequest, slot: int, holder: str, ttl_s: float) -> Lease:
    """Take a slot of the topic. A lease that an earlier try of this very run left behind is waited out."""
    deadline = time.monotonic() + 2 * ttl_s
    while True:
        try:
            return leases.acquire(request.topic, slot, holder, ttl_s)
        except LeaseUnavailable as error:
            is_own = error.holder.startswith(f"{request.run_id}@")
            if not is_own or time.monotonic() > deadline:
                raise
            log.info("an earlier try of this run died holding the lease; waiting for it to expire")
            leases.wait_free(request.topic, slot, deadline - time.monotonic())


def _combine(
    topic: str, reports: Sequence[DrainReport], busy: Sequence[LeaseUnavailable], seconds: float
) -> DrainReport:
    """Return one report for all slots of a run."""
    if not reports:
        return DrainReport("skipped", topic, reason="; ".join(str(error) for error in busy))
    total = sum((Tally(r.records, r.documents_out, r.dead_letters) for r in reports), Tally())
    drained = [report for report in reports if report.status == "drained"]
    return DrainReport(
        status="drained" if drained else reports[0].status,
        topic=topic,
        reason="" if drained else reports[0].reason,
        ranges=sum(report.ranges for report in reports),
        recovered_ranges=sum(report.recovered_ranges for report in reports),
        records=total.records,
        documents_out=dict(total.documents_out),
        dead_letters=total.dead_letters,
        seconds=round(seconds, 3),
    )

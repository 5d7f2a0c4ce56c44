"""One run over one topic: lease, reconcile, plan, drain, enter, release.

``L`` is the ledger's head of a partition, ``G`` the offset its consumer group committed in the same Kafka
transaction as the outputs. ``L <= G`` always; what lies between was done by a run that died before it could say so.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pipestream import faults
from pipestream.drain.broker import Broker, TopicIdentity
from pipestream.drain.model import DrainReport, DrainRequest, RangeFailed, RangeOutcome, RangeTask, Spread
from pipestream.drain.note import note_start, read_note
from pipestream.errors import LeaseLost, LeaseUnavailable, LedgerConflict, TopicMissing, TopicReplaced
from pipestream.graph.flow import start_at, topic_targets
from pipestream.graph.hashing import graph_hash
from pipestream.graph.model import Graph
from pipestream.graph.proto import to_binary
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.slots import slot_partitions
from pipestream.leases.store import Lease, LeaseStore
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.offsets.plan import plan_ranges
from pipestream.offsets.ranges import OffsetRange, Watermarks
from pipestream.offsets.reconcile import reconcile
from pipestream.offsets.start import start_offsets
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
                run = _Run(request, settings, lease, replicas, find_graph, broker or Broker(settings))
                reports.append(run.execute(spread, keeper.check))
        slot += 1
    return _combine(request.topic, reports, busy, time.monotonic() - started)


def consumer_group(graph: Graph, lane: str) -> str:
    """Return the consumer group whose committed offsets are a lane's ``G``."""
    return f"pipestream.{graph.cluster_id}.{lane}"


class _Run:
    """One run while it holds the lease."""

    def __init__(
        self,
        request: DrainRequest,
        settings: Settings,
        lease: Lease,
        replicas: int,
        find_graph: Callable[[str], Graph] | None,
        broker: Broker,
    ) -> None:
        self.request = request
        self.graph = request.graph
        self.find_graph = find_graph
        self.settings = settings
        self.lease = lease
        self.replicas = replicas
        self.broker = broker
        self.ledger = Ledger(settings)
        self.group = consumer_group(request.graph, request.lane)
        self.graph_hash = graph_hash(request.graph)
        self.plan_id = request.plan_id(lease.slot)

    def execute(self, spread: Spread, check_lease: Callable[[], None]) -> DrainReport:
        identity = self.broker.identify(self.request.topic)
        if not self.ledger.is_same_topic(self.request.lane, self.request.topic, identity.topic_id):
            raise TopicReplaced(self.request.topic)
        plan = self.ledger.find_plan(self.plan_id)
        recovered: list[Entry] = []
        if plan is not None:
            log.info("taking up plan %s, made at %s", plan.plan_id, plan.planned_at)
            self._use_graph_of(plan)
        else:
            plan, recovered = self._make_plan(identity, check_lease)
        check_lease()
        remaining = self._remaining(plan) if plan else []
        if not remaining:
            return self._nothing_left(plan, recovered)
        assert plan is not None
        outcomes: list[RangeOutcome] = []
        for outcome in spread(self._tasks(identity, remaining)):
            # Where ranges are drained one after the other, a run that was overtaken must not begin another: its
            # producer would fence the run that overtook it.
            check_lease()
            outcomes.append(outcome)
        outcomes.sort(key=lambda outcome: outcome.partition)
        faults.reach(faults.RANGES_DRAINED)
        check_lease()
        entries = [self._entry(outcome, identity) for outcome in outcomes if outcome.end > outcome.start]
        if entries:
            self.ledger.enter(entries)
        faults.reach(faults.RANGES_ENTERED)
        _raise_first_failure(outcomes)
        return self._report("drained", recovered, self._entered(plan))

    def _use_graph_of(self, plan: Plan) -> None:
        if plan.graph_hash == self.graph_hash:
            return
        if self.find_graph is None:
            raise LedgerConflict(
                f"plan {plan.plan_id} was made with another version of graph {plan.graph_id} "
                f"({plan.graph_hash[:12]}); run under a new run id to plan with this one"
            )
        self.graph, self.graph_hash = self.find_graph(plan.graph_hash), plan.graph_hash

    def _make_plan(self, identity: TopicIdentity, check_lease: Callable[[], None]) -> tuple[Plan | None, list[Entry]]:
        """Reconcile, then choose the ranges and write them down before any work."""
        request, topic = self.request, self.request.topic
        if request.backfill:
            watermarks = self.broker.watermarks(topic, identity.partitions)
            ranges = request.backfill.ranges(self.broker, topic, watermarks)
            recovered: list[Entry] = []
        else:
            ranges, recovered = self._reconcile(identity)
        check_lease()
        if recovered:
            self.ledger.enter(recovered)
            log.warning(
                "recovered %s: done by a run that died before it could enter them",
                [str(e.range) for e in recovered],
            )
        faults.reach(faults.RECONCILED)
        if not ranges:
            return None, recovered
        plan = Plan(
            plan_id=self.plan_id,
            run_id=request.run_id,
            lane=request.lane,
            topic=topic,
            topic_id=identity.topic_id,
            slot=self.lease.slot,
            graph_id=request.graph.graph_id,
            graph_hash=self.graph_hash,
            ranges=tuple(ranges),
            holder=self.lease.holder,
            token=self.lease.token,
            planned_at=datetime.now(UTC),
        )
        self.ledger.write_plan(plan)
        faults.reach(faults.PLAN_WRITTEN)
        return plan, recovered

    def _reconcile(self, identity: TopicIdentity) -> tuple[list[OffsetRange], list[Entry]]:
        """Return the ranges to drain, and entries for those that a dead run left behind."""
        request, topic = self.request, self.request.topic
        partitions = slot_partitions(self.lease.slot, self.replicas, len(identity.partitions))
        watermarks = self.broker.settled_watermarks(topic, partitions)
        heads = self.ledger.heads(request.lane, topic, partitions)
        committed = self.broker.committed(self.group, topic, partitions)
        offsets = {partition: found.offset for partition, found in committed.items()}
        begins = {p: start for p, found in committed.items() if (start := note_start(found.note)) is not None}
        standing = reconcile(topic, partitions, heads, offsets, begins, watermarks)
        recovered = [self._recovered(r, committed[r.partition].note, identity) for r in standing.left_behind]
        # A partition added later starts at its beginning: only a topic that is wholly new has a place to start.
        next_offsets = standing.next_offsets or self._begin(identity, watermarks)
        return plan_ranges(topic, next_offsets, watermarks, budget=request.budget), recovered

    def _begin(self, identity: TopicIdentity, watermarks: Mapping[int, Watermarks]) -> dict[int, int]:
        """Choose where a topic without a head starts, and keep the answer: it moves with time."""
        lane, topic = self.request.lane, self.request.topic
        policy = self.request.start_at or start_at(self.graph, topic)
        if not policy:
            return {}
        starts = start_offsets(self.broker, topic, watermarks, policy, watermarks)
        skipped = [
            self._make_entry(OffsetRange(topic, p, watermarks[p].low, start), EntryKind.SKIPPED, None, 0.0, identity)
            for p, start in starts.items()
            if start > watermarks[p].low
        ]
        self.ledger.begin(lane, topic, identity.topic_id, starts, skipped)
        log.info("%s starts at %s: %s", topic, policy, starts)
        return starts

    def _remaining(self, plan: Plan) -> list[OffsetRange]:
        """Return what is left of a plan: a retry finds ranges entered, by itself or by a run that recovered them."""
        heads = self.ledger.heads(plan.lane, plan.topic, (r.partition for r in plan.ranges))
        left = []
        for planned in plan.ranges:
            start = max(planned.start, heads.get(planned.partition, planned.start))
            if start < planned.end:
                left.append(OffsetRange(planned.topic, planned.partition, start, planned.end))
        return left

    def _tasks(self, identity: TopicIdentity, ranges: Sequence[OffsetRange]) -> list[RangeTask]:
        """One task a range; one task for all of them where the node wants its records in order of time."""
        node_id = topic_targets(self.graph).get(self.request.topic)
        if node_id is None:
            raise TopicMissing(self.request.topic)
        is_ordered = self.graph.node_by_id[node_id].ordering == "timestamp"
        groups = [ranges] if is_ordered else [[each] for each in ranges]
        return [self._task(identity, node_id, group) for group in groups]

    def _task(self, identity: TopicIdentity, node_id: str, ranges: Sequence[OffsetRange]) -> RangeTask:
        datasource_id = self.request.topic.removeprefix("intake.") if self.request.topic.startswith("intake.") else ""
        return RangeTask(
            topic=self.request.topic,
            topic_id=identity.topic_id,
            offsets=tuple((each.partition, each.start, each.end) for each in ranges),
            lane=self.request.lane,
            group=self.group,
            run_id=self.request.run_id,
            node_id=node_id,
            datasource_id=datasource_id,
            accept_failures=self.request.accept_failures,
            doc_ids=self.request.backfill.doc_ids if self.request.backfill else (),
            is_live=self.request.backfill is None,
            graph=b64encode(to_binary(self.graph)).decode(),
        )

    def _entry(self, outcome: RangeOutcome, identity: TopicIdentity) -> Entry:
        offsets = OffsetRange(outcome.topic, outcome.partition, outcome.start, outcome.end)
        return self._make_entry(offsets, EntryKind.DRAINED, outcome.tally, outcome.seconds, identity)

    def _recovered(self, offsets: OffsetRange, note: str, identity: TopicIdentity) -> Entry:
        return self._make_entry(offsets, EntryKind.RECOVERED, read_note(note, offsets.start), 0.0, identity)

    def _make_entry(
        self,
        offsets: OffsetRange,
        kind: EntryKind,
        tally: Tally | None,
        seconds: float,
        identity: TopicIdentity,
    ) -> Entry:
        return Entry(
            lane=self.request.lane,
            range=offsets,
            topic_id=identity.topic_id,
            kind=kind,
            run_id=self.request.run_id,
            plan_id=self.plan_id,
            graph_id=self.request.graph.graph_id,
            graph_hash=self.graph_hash,
            holder=self.lease.holder,
            token=self.lease.token,
            tally=tally,
            seconds=seconds,
            entered_at=datetime.now(UTC),
        )

    def _entered(self, plan: Plan | None) -> list[Entry]:
        if plan is None:
            return []
        found = self.ledger.entries(plan_id=plan.plan_id)
        return [entry for entry in found if entry.kind is EntryKind.DRAINED]

    def _nothing_left(self, plan: Plan | None, recovered: list[Entry]) -> DrainReport:
        if self.request.backfill:
            name = self.request.backfill.backfill_id
            reason = (
                f"backfill {name} of {self.request.topic} is finished" if plan else f"backfill {name} covers nothing"
            )
            return self._report("empty", recovered, [], reason)
        if plan or recovered:
            return self._report("drained", recovered, self._entered(plan))
        return self._report("empty", recovered, [], f"nothing waits in {self.request.topic}")

    def _report(
        self, status: str, recovered: Sequence[Entry], entered: Sequence[Entry], reason: str = ""
    ) -> DrainReport:
        total = sum((entry.tally for entry in (*recovered, *entered) if entry.tally), Tally())
        return DrainReport(
            status,
            self.request.topic,
            reason=reason,
            ranges=len(entered),
            recovered_ranges=len(recovered),
            records=total.records,
            documents_out=dict(total.documents_out),
            dead_letters=total.dead_letters,
        )


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


def _raise_first_failure(outcomes: Sequence[RangeOutcome]) -> None:
    failures = [outcome for outcome in outcomes if outcome.error]
    # A terminal failure needs a person; say that one, even if another range would only need a retry.
    for outcome in sorted(failures, key=lambda outcome: outcome.transient):
        raise RangeFailed(outcome)


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

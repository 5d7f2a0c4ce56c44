"""One run over one topic: lease, reconcile, plan, drain, enter, release.

``L`` is the ledger's head of a partition, ``G`` the offset its consumer group committed in the same Kafka
transaction as the outputs. ``L <= G`` always; what lies between was done by a run that died before it could say so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pipestream import faults
from pipestream.drain.broker import Broker, TopicIdentity
from pipestream.drain.model import DrainReport, DrainRequest, RangeFailed, RangeOutcome, RangeTask, Spread
from pipestream.drain.note import read_note
from pipestream.errors import LeaseLost, LeaseUnavailable, TopicMissing, TopicReplaced
from pipestream.graph.hashing import graph_hash
from pipestream.graph.model import Graph
from pipestream.graph.proto import to_json
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.slots import acquire_any, slot_partitions
from pipestream.leases.store import Lease, LeaseStore
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.offsets.plan import plan_ranges
from pipestream.offsets.ranges import OffsetRange
from pipestream.settings import Settings
from pipestream.topics.required import topic_targets

log = logging.getLogger(__name__)


def run_drain(
    request: DrainRequest,
    settings: Settings,
    spread: Spread,
    *,
    leases: LeaseStore,
    on_lease_lost: Callable[[LeaseLost], None] | None = None,
) -> DrainReport:
    """Drain what waits in a topic, up to the budget.

    :param spread: runs the range tasks, over Spark or in this process.
    :param on_lease_lost: called once if the lease is lost while tasks run, to stop them.
    :raises RangeFailed: a task stopped early; what was done up to there is entered.
    :raises LedgerConflict: another run entered the same ranges first; nothing was changed.
    """
    started = time.monotonic()
    holder = f"{request.run_id}@{socket.gethostname()}:{os.getpid()}"
    try:
        lease = _acquire(leases, request, holder, settings.lease_ttl_s)
    except LeaseUnavailable as error:
        return DrainReport("skipped", request.topic, reason=str(error))
    with LeaseKeeper(leases, lease, on_lost=on_lease_lost) as keeper:
        faults.reach(faults.LEASE_ACQUIRED)
        run = _Run(request, settings, lease, leases.desired(request.topic).replicas)
        report = run.execute(spread, keeper.check)
    return _timed(report, started)


def consumer_group(graph: Graph, lane: str) -> str:
    """Return the consumer group whose committed offsets are a lane's ``G``."""
    return f"pipestream.{graph.cluster_id}.{lane}"


class _Run:
    """One run while it holds the lease."""

    def __init__(self, request: DrainRequest, settings: Settings, lease: Lease, replicas: int) -> None:
        self.request = request
        self.settings = settings
        self.lease = lease
        self.replicas = replicas
        self.broker = Broker(settings)
        self.ledger = Ledger(settings)
        self.group = consumer_group(request.graph, request.lane)
        self.graph_hash = graph_hash(request.graph)
        self.plan_id = f"{request.run_id}|{request.topic}|{lease.slot}"

    def execute(self, spread: Spread, check_lease: Callable[[], None]) -> DrainReport:
        identity = self.broker.identify(self.request.topic)
        if not self.ledger.is_same_topic(self.request.lane, self.request.topic, identity.topic_id):
            raise TopicReplaced(self.request.topic)
        plan = self.ledger.find_plan(self.plan_id)
        recovered: list[Entry] = []
        if plan is not None:
            log.info("taking up plan %s, made at %s", plan.plan_id, plan.planned_at)
        else:
            plan, recovered = self._make_plan(identity, check_lease)
        remaining = self._remaining(plan) if plan else []
        if not remaining:
            status = "drained" if recovered or plan else "empty"
            return self._report(status, recovered, self._entered(plan))
        assert plan is not None
        outcomes = sorted(
            spread([self._task(identity, each) for each in remaining]), key=lambda outcome: outcome.partition
        )
        faults.reach(faults.RANGES_DRAINED)
        check_lease()
        entries = [self._entry(outcome, identity) for outcome in outcomes if outcome.end > outcome.start]
        if entries:
            self.ledger.enter(entries)
        faults.reach(faults.RANGES_ENTERED)
        _raise_first_failure(outcomes)
        return self._report("drained", recovered, self._entered(plan))

    def _make_plan(self, identity: TopicIdentity, check_lease: Callable[[], None]) -> tuple[Plan | None, list[Entry]]:
        """Reconcile, then choose the ranges and write them down before any work."""
        request, topic = self.request, self.request.topic
        partitions = slot_partitions(self.lease.slot, self.replicas, len(identity.partitions))
        watermarks = self.broker.watermarks(topic, partitions)
        heads = self.ledger.heads(request.lane, topic, partitions)
        committed = self.broker.committed(self.group, topic, partitions)
        recovered, next_offsets = [], {}
        for partition in partitions:
            head = heads.get(partition)
            done = committed.get(partition)
            # No G: never committed, or forgotten by Kafka after a quiet week. L is then the truth, not "start over".
            position = max((o for o in (head, done.offset if done else None) if o is not None), default=None)
            if position is None:
                continue
            next_offsets[partition] = position
            begin = head if head is not None else watermarks[partition].low
            if position > begin and done:
                recovered.append(self._recovered(OffsetRange(topic, partition, begin, position), done.note, identity))
        ranges = plan_ranges(topic, next_offsets, watermarks, budget=request.budget)
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

    def _remaining(self, plan: Plan) -> list[OffsetRange]:
        """Return what is left of a plan: a retry finds ranges entered, by itself or by a run that recovered them."""
        heads = self.ledger.heads(plan.lane, plan.topic, (r.partition for r in plan.ranges))
        left = []
        for planned in plan.ranges:
            start = max(planned.start, heads.get(planned.partition, planned.start))
            if start < planned.end:
                left.append(OffsetRange(planned.topic, planned.partition, start, planned.end))
        return left

    def _task(self, identity: TopicIdentity, offsets: OffsetRange) -> RangeTask:
        graph = self.request.graph
        node_id = topic_targets(graph).get(self.request.topic)
        if node_id is None:
            raise TopicMissing(self.request.topic)
        datasource_id = self.request.topic.removeprefix("intake.") if self.request.topic.startswith("intake.") else ""
        return RangeTask(
            topic=offsets.topic,
            topic_id=identity.topic_id,
            partition=offsets.partition,
            start=offsets.start,
            end=offsets.end,
            lane=self.request.lane,
            group=self.group,
            # Short, because it is part of a note of limited length.
            plan_key=hashlib.sha256(self.plan_id.encode()).hexdigest()[:16],
            run_id=self.request.run_id,
            node_id=node_id,
            datasource_id=datasource_id,
            accept_failures=self.request.accept_failures,
            graph_json=to_json(graph),
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

    def _report(self, status: str, recovered: Sequence[Entry], entered: Sequence[Entry]) -> DrainReport:
        total = sum((entry.tally for entry in (*recovered, *entered) if entry.tally), Tally())
        return DrainReport(
            status,
            self.request.topic,
            reason="" if status != "empty" else f"nothing waits in {self.request.topic}",
            ranges=len(entered),
            recovered_ranges=len(recovered),
            records=total.records,
            documents_out=dict(total.documents_out),
            dead_letters=total.dead_letters,
        )


def _acquire(leases: LeaseStore, request: DrainRequest, holder: str, ttl_s: float) -> Lease:
    """Take a slot of the topic. A lease that an earlier try of this very run left behind is waited out."""
    deadline = time.monotonic() + 2 * ttl_s
    while True:
        try:
            return acquire_any(leases, request.topic, holder, ttl_s)
        except LeaseUnavailable as error:
            is_own = error.holder.startswith(f"{request.run_id}@")
            if not is_own or time.monotonic() > deadline:
                raise
            log.info("an earlier try of this run died holding the lease; waiting for it to expire")
            time.sleep(1.0)


def _raise_first_failure(outcomes: Sequence[RangeOutcome]) -> None:
    failures = [outcome for outcome in outcomes if outcome.error]
    # A terminal failure needs a person; say that one, even if another range would only need a retry.
    for outcome in sorted(failures, key=lambda outcome: outcome.transient):
        raise RangeFailed(outcome)


def _timed(report: DrainReport, started: float) -> DrainReport:
    return DrainReport(**{**report.as_dict(), "seconds": round(time.monotonic() - started, 3)})

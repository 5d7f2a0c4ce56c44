"""One slot of a run: reconcile, plan, drain, enter.

``L`` is the ledger's head of a partition, ``G`` the offset its consumer group committed in the same Kafka
transaction as the outputs. ``L <= G`` always; what lies between was done by a run that died before it could say so.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from pipestream import faults
from pipestream.drain.model import (
    DrainReport,
    DrainRequest,
    RangeFailed,
    RangeOutcome,
    RangeTask,
    Spread,
    consumer_group,
    ordered_transactional_id,
    transactional_id,
)
from pipestream.drain.note import note_start, read_note
from pipestream.errors import LedgerConflict, TasksFailed, TopicMissing, TopicReplaced
from pipestream.graph.flow import start_at, topic_targets
from pipestream.graph.hashing import graph_hash
from pipestream.graph.model import Graph
from pipestream.graph.proto import to_binary
from pipestream.graph.start import StartKind
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.ranges import OffsetRange
from pipestream.leases.slots import slot_partitions
from pipestream.leases.store import Lease
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.offsets.plan import cut_ranges, plan_ranges
from pipestream.offsets.reconcile import reconcile
from pipestream.offsets.start import start_offsets
from pipestream.settings import Settings
from pipestream.topics.names import datasource_of

log = logging.getLogger(__name__)


class SlotRun:
    """One run over one slot of a topic, while it holds the lease."""

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
            if plan.topic_id != identity.topic_id:
                raise TopicReplaced(self.request.topic)
            if self.request.backfill:
                self.request.backfill.check_plan(plan)
            self._use_graph_of(plan)
        else:
            plan, recovered = self._make_plan(identity, check_lease)
        check_lease()
        if plan is None or not self._remaining(plan):
            return self._nothing_left(plan, recovered)
        while remaining := self._remaining(plan):
            self._drain_and_enter(self._next_piece(remaining), identity, spread, check_lease)
        return self._report("drained", recovered, self._entered(plan))

    def _next_piece(self, remaining: list[OffsetRange]) -> list[OffsetRange]:
        """Return what to drain before the next entry: a backfill covers all of its range, in pieces of the budget.

        The plan of any other run fits the budget. And where order matters, it must not end with a piece.
        """
        return remaining if self._is_ordered else cut_ranges(remaining, self.request.budget)

    @property
    def _is_ordered(self) -> bool:
        return self.graph.node_by_id[self._node_id].ordering == "timestamp"

    @property
    def _node_id(self) -> str:
        node_id = topic_targets(self.graph).get(self.request.topic)
        if node_id is None:
            raise TopicMissing(self.request.topic)
        return node_id

    def _drain_and_enter(
        self, ranges: Sequence[OffsetRange], identity: TopicIdentity, spread: Spread, check_lease: Callable[[], None]
    ) -> None:
        outcomes = self._drain(spread, self._tasks(identity, ranges), check_lease)
        faults.reach(faults.RANGES_DRAINED)
        check_lease()
        entries = [self._entry(outcome, identity) for outcome in outcomes if outcome.end > outcome.start]
        if entries:
            self.ledger.enter(entries)
        faults.reach(faults.RANGES_ENTERED)
        _raise_first_failure(outcomes)
        assert entries, "a task that does not fail gets somewhere"

    @staticmethod
    def _drain(spread: Spread, tasks: Sequence[RangeTask], check_lease: Callable[[], None]) -> list[RangeOutcome]:
        outcomes: list[RangeOutcome] = []
        try:
            for outcome in spread(tasks):
                # Where ranges are drained one after the other, a run that was overtaken must not begin another: its
                # producer would fence the run that overtook it.
                check_lease()
                outcomes.append(outcome)
        except TasksFailed:
            check_lease()  # tasks are cancelled when the lease is lost, and then that is what to say
            raise
        return sorted(outcomes, key=lambda outcome: outcome.partition)

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
            doc_ids=request.backfill.doc_ids if request.backfill else (),
        )
        self.ledger.write_plan(plan)
        faults.reach(faults.PLAN_WRITTEN)
        return plan, recovered

    def _reconcile(self, identity: TopicIdentity) -> tuple[list[OffsetRange], list[Entry]]:
        """Return the ranges to drain, and entries for those that a dead run left behind."""
        request, topic = self.request, self.request.topic
        partitions = slot_partitions(self.lease.slot, self.replicas, len(identity.partitions))
        watermarks = self.broker.settled_watermarks(topic, partitions)
        heads = self.ledger.heads(request.lane, topic, identity.partitions)
        committed = self.broker.committed(self.group, topic, identity.partitions)
        # Only a topic that is wholly new has a place to start; a partition that was added is read from its beginning.
        if not heads and not committed:
            heads = self._begin(identity)
        offsets = {partition: found.offset for partition, found in committed.items()}
        begins = {p: start for p, found in committed.items() if (start := note_start(found.note)) is not None}
        standing = reconcile(topic, partitions, heads, offsets, begins, watermarks)
        recovered = [self._recovered(r, committed[r.partition].note, identity) for r in standing.left_behind]
        return plan_ranges(topic, standing.next_offsets, watermarks, budget=request.budget), recovered

    def _begin(self, identity: TopicIdentity) -> dict[int, int]:
        """Choose where a topic without a head starts, for all its partitions, and keep the answer.

        Kept also where the answer is "at the earliest": what retention deletes from now on is missed.
        """
        lane, topic = self.request.lane, self.request.topic
        watermarks = self.broker.watermarks(topic, identity.partitions)
        policy = self.request.start_at or start_at(self.graph, topic) or StartKind.EARLIEST.value
        starts = start_offsets(self.broker, topic, watermarks, policy, watermarks)
        skipped = [
            self._make_entry(OffsetRange(topic, p, watermarks[p].low, start), EntryKind.SKIPPED, None, 0.0, identity)
            for p, start in starts.items()
            if start > watermarks[p].low
        ]
        starts = self.ledger.begin(lane, topic, identity.topic_id, starts, skipped)
        log.info("%s starts at %s: %s", topic, policy, starts)
        return starts

    def _remaining(self, plan: Plan) -> list[OffsetRange]:
        """Return what is left of a plan: a retry finds ranges entered, by itself or by a run that recovered them."""
        heads = self.ledger.heads(plan.lane, plan.topic, (r.partition for r in plan.ranges))
        left = []
        for planned in plan.ranges:
            start = heads.get(planned.partition, planned.start)
            if start < planned.start:
                raise LedgerConflict(
                    f"{planned}: its head was moved back to {start} after plan {plan.plan_id} was made; "
                    f"run under a new run id to drain from there"
                )
            if start < planned.end:
                left.append(OffsetRange(planned.topic, planned.partition, start, planned.end))
        return left

    def _tasks(self, identity: TopicIdentity, ranges: Sequence[OffsetRange]) -> list[RangeTask]:
        """One task a range; one task for all of them where the node wants its records in order of time."""
        topic, node_id = self.request.topic, self._node_id
        ordered_id = ordered_transactional_id(self.group, topic)
        ids = {partition: transactional_id(self.group, topic, partition) for partition in identity.partitions}
        if self._is_ordered:
            # Of all partitions, not only those that have something to do now: an earlier task may be at work on them.
            return [self._task(identity, node_id, ranges, (ordered_id, *ids.values()))]
        # The node may have wanted order until now, and a task of then may still be at work.
        self.broker.fence(topic, [ordered_id])
        return [self._task(identity, node_id, [each], (ids[each.partition],)) for each in ranges]

    def _task(
        self,
        identity: TopicIdentity,
        node_id: str,
        ranges: Sequence[OffsetRange],
        transactional_ids: tuple[str, ...],
    ) -> RangeTask:
        return RangeTask(
            topic=self.request.topic,
            topic_id=identity.topic_id,
            offsets=tuple((each.partition, each.start, each.end) for each in ranges),
            lane=self.request.lane,
            group=self.group,
            run_id=self.request.run_id,
            node_id=node_id,
            datasource_id=datasource_of(self.request.topic),
            accept_failures=self.request.accept_failures,
            doc_ids=self.request.backfill.doc_ids if self.request.backfill else (),
            is_live=self.request.backfill is None,
            transactional_ids=transactional_ids,
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
        found = self.ledger.entries(lane=plan.lane, topic=plan.topic, plan_id=plan.plan_id, since=plan.planned_at)
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


def _raise_first_failure(outcomes: Sequence[RangeOutcome]) -> None:
    failures = [outcome for outcome in outcomes if outcome.error]
    # A terminal failure needs a person; say that one, even if another range would only need a retry.
    for outcome in sorted(failures, key=lambda outcome: outcome.transient):
        raise RangeFailed(outcome)

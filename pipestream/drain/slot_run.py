"""One slot of a run: make or resume a plan, drain its ranges, record them, report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from pipestream import faults
from pipestream.drain.lane import find_remaining
from pipestream.drain.range_task import (
    RangeFailed,
    RangeOutcome,
    RangeTask,
    Runner,
    ordered_transactional_id,
    range_tasks,
)
from pipestream.drain.report import DRAINED, EMPTY, DrainReport
from pipestream.drain.request import DrainRequest, HeldSlot
from pipestream.drain.topics_there import await_outputs
from pipestream.errors import LedgerConflict, TasksFailed, TopicReplaced
from pipestream.graph.model import Graph
from pipestream.graph.proto import graph_hash
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange
from pipestream.leases.store import Lease
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.offsets.plan import cut_ranges
from pipestream.settings import Settings

log = logging.getLogger(__name__)

_CLOCKS_DIFFER = timedelta(hours=1)


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
        self.lease = lease
        self._settings = settings
        self._replicas = replicas
        self._find_graph = find_graph
        self._broker = broker
        self._ledger = Ledger(settings)

    def execute(self, runner: Runner, check_lease: Callable[[], None]) -> DrainReport:
        slot = self._identify()
        plan = self._ledger.find_plan(slot.plan_id)
        recovered: list[Entry] = []
        if plan is not None:
            slot = self._resume(plan, slot)
        else:
            plan, recovered = make_plan(slot, self._broker, self._ledger, check_lease)
        check_lease()
        if plan is None or not (remaining := find_remaining(plan, self._ledger)):
            return self._nothing_left(plan, recovered)
        await_outputs(self.request.topic, slot.graph, self._settings, self._broker, check_lease)
        while remaining:
            self._drain_and_enter(slot, _next_piece(slot, remaining), runner, check_lease)
            remaining = find_remaining(plan, self._ledger)
        return self._report(DRAINED, recovered, self._entered(plan))

    def _identify(self) -> HeldSlot:
        request = self.request
        identity = request.lane.identify(request.topic, self._broker, self._ledger)
        return HeldSlot(request, self.lease, self._replicas, identity, request.graph, graph_hash(request.graph))

    def _resume(self, plan: Plan, slot: HeldSlot) -> HeldSlot:
        """Return the slot with the graph that its plan was made with."""
        log.info("resuming plan %s, made at %s", plan.plan_id, plan.planned_at)
        if plan.topic_id != slot.identity.topic_id:
            way_out = f"plan {plan.plan_id} was made for the old one; take another {slot.lane.id_to_change}"
            raise TopicReplaced(plan.topic, way_out)
        slot.lane.check_plan(plan)
        if plan.graph_hash == slot.graph_hash:
            return slot
        if self._find_graph is None:
            raise LedgerConflict(
                f"plan {plan.plan_id} was made with another version of graph {plan.graph_id} "
                f"({plan.graph_hash[:12]}); run under a new run id to plan with this one"
            )
        return replace(slot, graph=self._find_graph(plan.graph_hash), graph_hash=plan.graph_hash)

    def _drain_and_enter(
        self, slot: HeldSlot, ranges: Sequence[OffsetRange], runner: Runner, check_lease: Callable[[], None]
    ) -> None:
        tasks = range_tasks(slot, ranges)
        if not slot.is_ordered:
            # The node may have been ordered until now, and a task from that time may still be at work.
            self._broker.fence(self.request.topic, [ordered_transactional_id(slot.group, self.request.topic)])
        outcomes = run_tasks(runner, tasks, check_lease)
        faults.reach(faults.RANGES_DRAINED)
        check_lease()
        entries = [_entry(slot, outcome) for outcome in outcomes if outcome.end > outcome.start]
        if entries:
            self._ledger.enter(entries)
        faults.reach(faults.RANGES_ENTERED)
        raise_first_failure(outcomes)
        assert entries, "a task that does not fail drains something"

    def _entered(self, plan: Plan | None) -> list[Entry]:
        if plan is None:
            return []
        # Not all there are: an entry is younger than its plan, as far as the clocks of machines agree.
        since = plan.planned_at - _CLOCKS_DIFFER
        found = self._ledger.entries(lane=plan.lane, topic=plan.topic, plan_id=plan.plan_id, since=since)
        return [entry for entry in found if entry.kind is EntryKind.DRAINED]

    def _nothing_left(self, plan: Plan | None, recovered: list[Entry]) -> DrainReport:
        reason = self.request.lane.say_nothing_waits(self.request.topic, plan)
        if recovered or not reason:
            return self._report(DRAINED, recovered, self._entered(plan))
        return self._report(EMPTY, recovered, [], reason)

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
            tally=total,
        )


def _next_piece(slot: HeldSlot, remaining: list[OffsetRange]) -> list[OffsetRange]:
    """Return what to drain before the next entry: a backfill covers all of its range, in pieces of the budget.

    The plan of any other run fits the budget. And where order matters, it must not end with a piece.
    """
    return remaining if slot.is_ordered else cut_ranges(remaining, slot.request.budget)


def run_tasks(runner: Runner, tasks: Sequence[RangeTask], check_lease: Callable[[], None]) -> list[RangeOutcome]:
    """Run the tasks of a slot, and return how each of their ranges ended."""
    outcomes: list[RangeOutcome] = []
    try:
        for outcome in runner(tasks):
            # Where ranges are drained one after the other, a run that was overtaken must not begin another: its
            # producer would fence the run that overtook it.
            check_lease()
            outcomes.append(outcome)
    except TasksFailed:
        check_lease()  # tasks are cancelled when the lease is lost, and then that is the error to report
        raise
    return sorted(outcomes, key=lambda outcome: outcome.partition)


def _entry(slot: HeldSlot, outcome: RangeOutcome) -> Entry:
    offsets = OffsetRange(outcome.topic, outcome.partition, outcome.start, outcome.end)
    return slot.entry(offsets, EntryKind.DRAINED, outcome.tally, outcome.seconds)


def raise_first_failure(outcomes: Sequence[RangeOutcome]) -> None:
    """Raise the failure that matters most, if a range has one."""
    failures = [outcome for outcome in outcomes if outcome.error]
    # A terminal failure needs a person; say that one, even if another range would only need a retry. And what concerns
    # the whole run explains what happened to the ranges.
    for outcome in sorted(failures, key=lambda outcome: (outcome.transient, -outcome.concerns.width)):
        raise RangeFailed(outcome)


def make_plan(
    slot: HeldSlot, broker: Broker, ledger: Ledger, check_lease: Callable[[], None]
) -> tuple[Plan | None, list[Entry]]:
    """Let the lane choose the ranges, and write them down before any work.

    Return the plan, if anything waits, and what was recovered from a run that died.
    """
    ranges, recovered = slot.lane.choose(slot, broker, ledger)
    check_lease()
    enter_recovered(ledger, recovered)
    faults.reach(faults.RECONCILED)
    if not ranges:
        return None, recovered
    plan = slot.plan(ranges)
    ledger.write_plan(plan)
    faults.reach(faults.PLAN_WRITTEN)
    return plan, recovered


def enter_recovered(ledger: Ledger, recovered: Sequence[Entry]) -> None:
    """Record ranges that an earlier run drained and could not record."""
    if recovered:
        ledger.enter(recovered)
        log.warning(
            "recovered %s: drained by a run that died before it could record them",
            [str(e.range) for e in recovered],
        )

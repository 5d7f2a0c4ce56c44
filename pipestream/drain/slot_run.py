"""One slot of a run: make or resume a plan, drain its ranges, record them, report."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from pipestream import faults
from pipestream.drain.cost_history import CostHistory
from pipestream.drain.lane import find_remaining
from pipestream.drain.plan_tasks import TaskCut, Tasks, choose_cut, cut_sub_ranges
from pipestream.drain.range_task import ParallelRunner, RangeFailed, RangeOutcome, RangeTask, Runner, range_tasks
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
        history: CostHistory,
    ) -> None:
        """
        :param history: shared by the slots of the run.
        """
        self.request = request
        self.lease = lease
        self._settings = settings
        self._replicas = replicas
        self._find_graph = find_graph
        self._broker = broker
        self._history = history
        self._ledger = Ledger(settings)

    def execute(self, runner: Runner, check_lease: Callable[[], None]) -> DrainReport:
        slot = self._identify()
        plan = self._ledger.find_plan(slot.plan_id, slot.lane.name)
        recovered: list[Entry] = []
        if plan is not None:
            slot = self._resume(plan, slot)
        else:
            find_cut = partial(self._find_cut, slot, runner)
            plan, recovered = make_plan(slot, self._broker, self._ledger, check_lease, find_cut)
        check_lease()
        if plan is None or not (remaining := find_remaining(plan, self._ledger)):
            return self._nothing_left(plan, recovered)
        await_outputs(self.request.topic, slot.graph, self._settings, self._broker, check_lease)
        while remaining:
            self._drain_and_enter(slot, plan, _next_piece(slot, plan, remaining), runner, check_lease)
            remaining = find_remaining(plan, self._ledger)
        return self._report(DRAINED, recovered, self._entered(plan), tasks=plan.tasks_reason)

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

    def _find_cut(self, slot: HeldSlot, runner: Runner, ranges: Sequence[OffsetRange]) -> TaskCut:
        """Choose how a new plan is cut into tasks, and look only for what the choice depends on."""
        settings = self._settings
        if slot.is_ordered:
            return TaskCut("one task: its node wants the records of all partitions in order of time")
        tasks = Tasks(1, settings.sub_ranges, settings.sub_range_wave_s, settings.failing_minimum)
        if not isinstance(runner, ParallelRunner):
            return choose_cut(ranges, None, tasks) if settings.sub_ranges == "always" else TaskCut("")
        if settings.sub_ranges == "never":
            return choose_cut(ranges, None, tasks)
        cost_s = self._history.seconds_per_document(slot.graph_hash)
        # Asked last, because it may start Spark; a range that is drained in a moment does not need to know.
        is_worth_it = settings.sub_ranges == "always" or cost_s is not None
        return choose_cut(ranges, cost_s, replace(tasks, at_once=runner.find_task_slots() if is_worth_it else 2))

    def _cut_tasks(self, slot: HeldSlot, tasks: Sequence[RangeTask], size: int) -> list[RangeTask]:
        """Cut the range of each task into sub-ranges, from the offset on that is committed by now."""
        ranges = [task.ranges[0] for task in tasks]
        # An earlier try may have got so far. It is a lower bound, and the task that commits drops the rest.
        found = self._broker.committed(slot.group, self.request.topic, [each.partition for each in ranges])
        done = {partition: committed.offset for partition, committed in found.items()}
        begins = [min(max(each.start, done.get(each.partition, 0)), each.end) for each in ranges]
        return [
            replace(task, sub_ranges=cut_sub_ranges(begin, each.end, size))
            for task, each, begin in zip(tasks, ranges, begins, strict=True)
        ]

    def _drain_and_enter(
        self,
        slot: HeldSlot,
        plan: Plan,
        ranges: Sequence[OffsetRange],
        runner: Runner,
        check_lease: Callable[[], None],
    ) -> None:
        tasks = range_tasks(slot, ranges)
        if plan.sub_range_offsets:
            tasks = self._cut_tasks(slot, tasks, plan.sub_range_offsets)
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
        self,
        status: str,
        recovered: Sequence[Entry],
        entered: Sequence[Entry],
        reason: str = "",
        tasks: str = "",
    ) -> DrainReport:
        total = sum((entry.tally for entry in (*recovered, *entered) if entry.tally), Tally())
        return DrainReport(
            status,
            self.request.topic,
            reason=reason,
            ranges=len(entered),
            recovered_ranges=len(recovered),
            tally=total,
            tasks=tasks,
        )


def _next_piece(slot: HeldSlot, plan: Plan, remaining: list[OffsetRange]) -> list[OffsetRange]:
    """Return what to drain before the next entry: a wave, or of a backfill, which covers all of its range, the budget.

    The plan of any other run fits the budget. And where order matters, it must not end with a piece.
    """
    budget = slot.request.budget
    if plan.wave_offsets:
        budget = min(budget, plan.wave_offsets)
    return remaining if slot.is_ordered else cut_ranges(remaining, budget)


def run_tasks(runner: Runner, tasks: Sequence[RangeTask], check_lease: Callable[[], None]) -> list[RangeOutcome]:
    """Run the tasks of a slot, and return how each of their ranges ended."""
    outcomes: list[RangeOutcome] = []
    try:
        for outcome in runner(tasks):
            # Where some ranges wait for others to end, a run that was overtaken must not begin another: its producer
            # would fence the run that overtook it.
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
    slot: HeldSlot,
    broker: Broker,
    ledger: Ledger,
    check_lease: Callable[[], None],
    find_cut: Callable[[Sequence[OffsetRange]], TaskCut],
) -> tuple[Plan | None, list[Entry]]:
    """Let the lane choose the ranges, choose how they are cut into tasks, and write all down before any work.

    A retry resumes the plan, so it cuts the same sub-ranges, and finds the crash markers of the tasks that died.
    Return the plan, if anything waits, and what was recovered from a run that died.
    """
    ranges, recovered = slot.lane.choose(slot, broker, ledger)
    check_lease()
    enter_recovered(ledger, recovered)
    faults.reach(faults.RECONCILED)
    if not ranges:
        return None, recovered
    cut = find_cut(ranges)
    if cut.reason:
        log.info("%s slot %d: %s", slot.request.topic, slot.lease.slot, cut.reason)
    plan = replace(
        slot.plan(ranges),
        sub_range_offsets=cut.sub_range_offsets,
        wave_offsets=cut.wave_offsets,
        tasks_reason=cut.reason,
    )
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

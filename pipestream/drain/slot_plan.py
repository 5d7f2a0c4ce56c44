"""What one run drains of a slot: let the lane choose the ranges, and write them down before any work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipestream import faults
from pipestream.errors import LedgerConflict
from pipestream.kafka.broker import Broker
from pipestream.kafka.ranges import OffsetRange
from pipestream.ledger import Entry, Ledger, Plan

if TYPE_CHECKING:
    from pipestream.drain.slot import HeldSlot

log = logging.getLogger(__name__)


def make_plan(
    slot: HeldSlot, broker: Broker, ledger: Ledger, check_lease: Callable[[], None]
) -> tuple[Plan | None, list[Entry]]:
    """Choose what to drain. Return the plan, if anything waits, and what was recovered from a run that died."""
    ranges, recovered = slot.lane.choose(slot, broker, ledger)
    check_lease()
    if recovered:
        ledger.enter(recovered)
        log.warning(
            "recovered %s: done by a run that died before it could enter them",
            [str(e.range) for e in recovered],
        )
    faults.reach(faults.RECONCILED)
    if not ranges:
        return None, recovered
    plan = slot.plan(ranges)
    ledger.write_plan(plan)
    faults.reach(faults.PLAN_WRITTEN)
    return plan, recovered


def find_remaining(plan: Plan, ledger: Ledger) -> list[OffsetRange]:
    """Return what is left of a plan: a retry finds ranges entered, by itself or by a run that recovered them.

    :raises LedgerConflict: an operator moved a head back meanwhile.
    """
    heads = ledger.heads(plan.lane, plan.topic, (r.partition for r in plan.ranges))
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

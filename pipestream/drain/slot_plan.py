"""What one run drains of a slot: settle what an earlier run left, choose the ranges, write them down before any work.

``L`` is the ledger's head of a partition, ``G`` the offset its consumer group committed in the same Kafka
transaction as the outputs. ``L <= G`` always; what lies between was done by a run that died before it could say so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pipestream import faults
from pipestream.drain.note import note_start, read_note
from pipestream.drain.slot import HeldSlot
from pipestream.errors import LedgerConflict
from pipestream.graph.flow import start_at
from pipestream.graph.start import StartKind
from pipestream.kafka.broker import Broker
from pipestream.kafka.ranges import OffsetRange
from pipestream.leases.slots import slot_partitions
from pipestream.ledger import Entry, EntryKind, Ledger, Plan
from pipestream.offsets.plan import plan_ranges
from pipestream.offsets.reconcile import reconcile
from pipestream.offsets.start import start_offsets

log = logging.getLogger(__name__)


def make_plan(
    slot: HeldSlot, broker: Broker, ledger: Ledger, check_lease: Callable[[], None]
) -> tuple[Plan | None, list[Entry]]:
    """Reconcile, then plan. Return the plan, if anything waits, and what was recovered from a run that died."""
    request = slot.request
    recovered: list[Entry] = []
    if request.backfill:
        ranges = request.backfill.ranges(broker, request.topic, slot.identity.partitions)
    else:
        ranges, recovered = _reconcile(slot, broker, ledger)
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


def _reconcile(slot: HeldSlot, broker: Broker, ledger: Ledger) -> tuple[list[OffsetRange], list[Entry]]:
    """Return the ranges to drain, and entries for those that a dead run left behind."""
    request, topic, identity = slot.request, slot.request.topic, slot.identity
    partitions = slot_partitions(slot.lease.slot, slot.replicas, len(identity.partitions))
    heads = ledger.heads(request.lane, topic, identity.partitions)
    committed = broker.committed(slot.group, topic, identity.partitions)
    # Only a topic that is wholly new has a place to start; a partition that was added is read from its beginning.
    if not heads and not committed:
        heads = _begin(slot, broker, ledger)
    # Asked last: a topic only grows, so that no head or offset read before lies behind these ends.
    watermarks = broker.settled_watermarks(topic, partitions)
    offsets = {partition: found.offset for partition, found in committed.items()}
    begins = {p: start for p, found in committed.items() if (start := note_start(found.note)) is not None}
    standing = reconcile(topic, watermarks, heads, offsets, begins)
    recovered = [
        slot.entry(left, EntryKind.RECOVERED, read_note(committed[left.partition].note, left.start))
        for left in standing.left_behind
    ]
    return plan_ranges(topic, standing.next_offsets, watermarks, budget=request.budget), recovered


def _begin(slot: HeldSlot, broker: Broker, ledger: Ledger) -> dict[int, int]:
    """Choose where a topic without a head starts, for all its partitions, and keep the answer.

    Kept also where the answer is "at the earliest": what retention deletes from now on is missed.
    """
    request, topic = slot.request, slot.request.topic
    watermarks = broker.watermarks(topic, slot.identity.partitions)
    policy = request.start_at or start_at(slot.graph, topic) or StartKind.EARLIEST.value
    starts = start_offsets(broker, topic, watermarks, policy)
    skipped = [
        slot.entry(OffsetRange(topic, p, watermarks[p].low, start), EntryKind.SKIPPED)
        for p, start in starts.items()
        if start > watermarks[p].low
    ]
    starts = ledger.begin(request.lane, topic, slot.identity.topic_id, starts, skipped)
    log.info("%s starts at %s: %s", topic, policy, starts)
    return starts

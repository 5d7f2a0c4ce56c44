"""A graph's everyday lane: each run drains what came after the run before it.

``L`` is the ledger's head of a partition, ``G`` the offset its consumer group committed in the same Kafka
transaction as the outputs. ``L <= G`` always; what lies between was drained by a run that died before it could
record it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pipestream.drain.lane import Chosen, Lane
from pipestream.drain.range_task import metadata_start, read_metadata
from pipestream.errors import TopicReplaced
from pipestream.graph.flow import start_at
from pipestream.graph.model import Graph
from pipestream.graph.start import StartKind
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.records import OffsetRange, Watermarks
from pipestream.leases.names import is_of_run
from pipestream.leases.store import Assignment, LeaseStore
from pipestream.ledger import Entry, EntryKind, Ledger, Plan
from pipestream.offsets.plan import count_lag, find_waiting, plan_ranges, reconcile, slot_partitions
from pipestream.offsets.start import start_offsets

if TYPE_CHECKING:
    from pipestream.drain.request import HeldSlot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Where the partitions of a slot stand, by the ledger and by Kafka."""

    next_offsets: Mapping[int, int]
    """A partition absent here was never drained."""
    watermarks: Mapping[int, Watermarks]
    recovered: list[Entry]
    """For ranges that an earlier run drained and could not record; to be entered."""


@dataclass(frozen=True, slots=True)
class LiveLane(Lane):
    """The lane of a graph's live runs. It has the graph's name."""

    is_live: ClassVar[bool] = True
    id_to_change: ClassVar[str] = "run id"

    @classmethod
    def of(cls, graph: Graph) -> Self:
        return cls(graph.graph_id, graph.cluster_id)

    @property
    def name(self) -> str:
        return self.graph_id

    def plan_id(self, run_id: str, topic: str, slot: int) -> str:
        """Return an id that is the same for a retry of the run, and another for every other run."""
        return f"{run_id}|{topic}|{slot}"

    def slots(self, replicas: int) -> int:
        return replicas

    def choose(self, slot: HeldSlot, broker: Broker, ledger: Ledger) -> Chosen:
        """Reconcile ``L`` with ``G``, then return what waits behind them, up to the run's budget."""
        stood = self.reconcile(slot, broker, ledger)
        ranges = plan_ranges(slot.request.topic, stood.next_offsets, stood.watermarks, budget=slot.request.budget)
        return ranges, stood.recovered

    def reconcile(self, slot: HeldSlot, broker: Broker, ledger: Ledger) -> Reconciled:
        """Compare ``L`` with ``G`` for the partitions of a slot, and return where each stands.

        A topic that has neither begins where its graph says, and that is recorded.
        """
        topic, identity = slot.request.topic, slot.identity
        partitions = slot_partitions(slot.lease.slot, slot.replicas, len(identity.partitions))
        heads = ledger.heads(self.name, topic, identity.partitions)
        committed = broker.committed(self.group, topic, identity.partitions)
        # Only a topic that is wholly new has a place to start; a partition that was added is read from its beginning.
        if not heads and not committed:
            heads = _begin(slot, broker, ledger)
        # Asked last: a topic only grows, so that no head or offset read before lies behind these ends.
        watermarks = broker.settled_watermarks(topic, partitions)
        offsets = {partition: found.offset for partition, found in committed.items()}
        begins = {p: start for p, found in committed.items() if (start := metadata_start(found.metadata)) is not None}
        standing = reconcile(topic, watermarks, heads, offsets, begins)
        recovered = [
            slot.entry(left, EntryKind.RECOVERED, read_metadata(committed[left.partition].metadata, left.start))
            for left in standing.left_behind
        ]
        return Reconciled(standing.next_offsets, watermarks, recovered)

    def check_plan(self, plan: Plan) -> None:
        """Accept every plan: a run id names one plan per slot, so the plan is the run's own."""

    def say_nothing_waits(self, topic: str, plan: Plan | None) -> str:
        return "" if plan else f"nothing waits in {topic}"

    def find_idle(self, topic: str, identity: TopicIdentity, run_id: str, broker: Broker, ledger: Ledger) -> str:  # noqa: ARG002
        return "" if self.find_lag(topic, identity, broker, ledger) else f"nothing to drain in {topic}"

    def find_lag(self, topic: str, identity: TopicIdentity, broker: Broker, ledger: Ledger) -> int:
        """Return the lag of a topic: offsets that wait, or are drained and not yet recorded.

        :raises OffsetsExpired: retention deleted records before they were drained.
        :raises TopicRewound: the topic ends before what has been drained.
        """
        heads = ledger.heads(self.name, topic, identity.partitions)
        marks = broker.settled_watermarks(topic, identity.partitions)
        if heads:
            find_waiting(topic, heads, marks)  # refuses what a run would refuse
        return count_lag(heads, marks)

    def find_holders(self, topic: str, run_id: str, leases: LeaseStore) -> Sequence[Assignment]:
        """Return who holds the slots, if others hold all of them: the next run drains what this one would have."""
        slots = leases.assignments(self.lease_name(topic))
        # A slot of this very run is left from an earlier try of it.
        held = [slot for slot in slots if slot.holder and not is_of_run(slot.holder, run_id)]
        return held if len(held) == len(slots) else []

    def finish(self, topic: str, leases: LeaseStore) -> None:
        """Nothing to do: the next run uses the same lease."""

    def topic_replaced(self, topic: str) -> TopicReplaced:
        return TopicReplaced(topic)


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
    starts = ledger.begin(request.lane.name, topic, slot.identity.topic_id, starts, skipped)
    log.info("%s starts at %s: %s", topic, policy, starts)
    return starts

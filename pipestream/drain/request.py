"""What a run is asked to drain, and one slot of it while the run holds the lease."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pipestream.drain.backfill import Backfill
from pipestream.drain.backfill_lane import BackfillLane
from pipestream.drain.lane import Lane
from pipestream.drain.live_lane import LiveLane
from pipestream.graph.flow import topic_targets
from pipestream.graph.model import Graph
from pipestream.kafka.broker import TopicIdentity
from pipestream.kafka.records import OffsetRange
from pipestream.leases.store import Lease
from pipestream.ledger import Entry, EntryKind, Plan, Tally


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What one run is asked to drain."""

    graph: Graph
    topic: str
    run_id: str
    budget: int
    backfill: Backfill | None = None
    """The stretch of the past to drain again; without one, the run is a live run."""
    accept_failures: bool = False
    """Write dead letters even if most of a range fails."""
    start_at: str = ""
    """Where to start if the topic has no head yet; empty: where the graph says."""

    @property
    def lane(self) -> Lane:
        """Return the lane that the run drains the topic in, which knows all that a backfill does differently."""
        if self.backfill is None:
            return LiveLane.of(self.graph)
        return BackfillLane(self.graph.graph_id, self.graph.cluster_id, self.backfill)

    @property
    def lease_name(self) -> str:
        """Return what the run leases."""
        return self.lane.lease_name(self.topic)

    def plan_id(self, slot: int) -> str:
        """Return the id of the run's plan for a slot."""
        return self.lane.plan_id(self.run_id, self.topic, slot)


@dataclass(frozen=True, slots=True)
class HeldSlot:
    """One slot that a run drains: under which lease, with which graph, and its plan and entries for the ledger."""

    request: DrainRequest
    lease: Lease
    replicas: int
    identity: TopicIdentity
    graph: Graph
    """The request's, or the one of the plan that a retry resumes."""
    graph_hash: str

    @property
    def lane(self) -> Lane:
        return self.request.lane

    @property
    def group(self) -> str:
        """Return the consumer group whose committed offsets are the lane's ``G``."""
        return self.lane.group

    @property
    def plan_id(self) -> str:
        return self.request.plan_id(self.lease.slot)

    @property
    def node_id(self) -> str:
        """Return the node that the topic's records enter."""
        return topic_targets(self.graph)[self.request.topic]

    @property
    def is_ordered(self) -> bool:
        """Return whether that node wants its records in order of time."""
        return self.graph.node_by_id[self.node_id].is_ordered

    def plan(self, ranges: Iterable[OffsetRange]) -> Plan:
        """Return the plan to drain some ranges, made now."""
        request = self.request
        return Plan(
            plan_id=self.plan_id,
            run_id=request.run_id,
            lane=self.lane.name,
            topic=request.topic,
            topic_id=self.identity.topic_id,
            slot=self.lease.slot,
            graph_id=request.graph.graph_id,
            graph_hash=self.graph_hash,
            ranges=tuple(ranges),
            holder=self.lease.holder,
            token=self.lease.token,
            planned_at=datetime.now(UTC),
            doc_ids=self.lane.doc_ids,
        )

    def entry(self, offsets: OffsetRange, kind: EntryKind, tally: Tally | None = None, seconds: float = 0.0) -> Entry:
        """Return the entry of a range, made now."""
        return Entry(
            lane=self.lane.name,
            range=offsets,
            topic_id=self.identity.topic_id,
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

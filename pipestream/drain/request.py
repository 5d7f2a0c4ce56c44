"""What a run is asked to drain."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.drain.backfill import Backfill
from pipestream.drain.backfill_lane import BackfillLane
from pipestream.drain.lane import Lane
from pipestream.drain.live_lane import LiveLane
from pipestream.graph.model import Graph


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

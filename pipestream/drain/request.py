"""What a run is asked to drain."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.drain.backfill import Backfill
from pipestream.graph.model import Graph
from pipestream.topic_names import backfill_lease


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What one run is asked to drain."""

    graph: Graph
    topic: str
    run_id: str
    budget: int
    backfill: Backfill | None = None
    accept_failures: bool = False
    """Write dead letters even if most of a range fails."""
    start_at: str = ""
    """Where to start if the topic has no head yet; empty: where the graph says."""

    @property
    def lane(self) -> str:
        """Return the ledger's name for this reader of the topic."""
        graph_id = self.graph.graph_id
        return f"{graph_id}@{self.backfill.backfill_id}" if self.backfill else graph_id

    @property
    def leased(self) -> str:
        """Return what the run leases: the topic, or its backfill, which goes on beside the live runs."""
        return backfill_lease(self.topic, self.lane) if self.backfill else self.topic

    def plan_id(self, slot: int) -> str:
        """Return the id of the run's plan: the same for a retry, and for a backfill whichever run goes on with it."""
        return f"{self.lane}|{self.topic}" if self.backfill else f"{self.run_id}|{self.topic}|{slot}"


def consumer_group(graph: Graph, lane: str) -> str:
    """Return the consumer group whose committed offsets are a lane's ``G``."""
    return f"pipestream.{graph.cluster_id}.{lane}"

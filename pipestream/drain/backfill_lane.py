"""The lane of a backfill, which drains a stretch of a topic's past again next to the live runs.

It has its own consumer group, heads and stream ids. So it never moves a live head, an interrupted backfill resumes
where it stopped, and a finished one finds nothing left to do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipestream.drain.backfill import Backfill
from pipestream.drain.lane import Chosen, Lane, find_remaining
from pipestream.errors import TopicReplaced, TransientError
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.leases.store import Assignment, LeaseStore
from pipestream.ledger import Ledger, Plan

if TYPE_CHECKING:
    from pipestream.drain.request import HeldSlot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillLane(Lane):
    """The lane of one backfill. Its name is that of the graph and of the backfill, ``GRAPH@ID``."""

    backfill: Backfill

    is_live: ClassVar[bool] = False
    id_to_change: ClassVar[str] = "backfill id"

    @property
    def name(self) -> str:
        return f"{self.graph_id}@{self.backfill.backfill_id}"

    @property
    def doc_ids(self) -> tuple[str, ...]:
        return self.backfill.doc_ids

    def plan_id(self, run_id: str, topic: str, slot: int) -> str:  # noqa: ARG002
        """Return an id that is the same whichever run resumes the backfill."""
        return f"{self.name}|{topic}"

    def slots(self, replicas: int) -> int:  # noqa: ARG002
        """Return 1: one slot covers all partitions."""
        return 1

    def choose(self, slot: HeldSlot, broker: Broker, ledger: Ledger) -> Chosen:  # noqa: ARG002
        return self.backfill.ranges(broker, slot.request.topic, slot.identity.partitions), []

    def check_plan(self, plan: Plan) -> None:
        """:raises BackfillInvalid: the plan has other offsets or other documents."""
        self.backfill.check_plan(plan)

    def say_nothing_waits(self, topic: str, plan: Plan | None) -> str:  # noqa: ARG002
        return self.backfill.finished(plan) if plan else f"backfill {self.backfill.backfill_id} covers nothing"

    def find_idle(self, topic: str, identity: TopicIdentity, run_id: str, broker: Broker, ledger: Ledger) -> str:
        plan = ledger.find_plan(self.plan_id(run_id, topic, slot=0), self.name)
        if plan is None:
            ranges = self.backfill.ranges(broker, topic, identity.partitions)
            name = self.backfill.backfill_id
            return "" if ranges else f"{topic} has no records of that time: backfill {name} covers nothing"
        return "" if find_remaining(plan, ledger) else self.say_nothing_waits(topic, plan)

    def find_holders(self, topic: str, run_id: str, leases: LeaseStore) -> Sequence[Assignment]:  # noqa: ARG002
        """Return nobody. A lease is not a reason to skip a backfill, because no later run would drain it."""
        return []

    def finish(self, topic: str, leases: LeaseStore) -> None:
        """Unregister a finished backfill. A schedule can create thousands of them."""
        try:
            leases.unregister([self.lease_name(topic)])
        except TransientError as error:
            log.warning("%s stays registered: %s", self.lease_name(topic), error)

    def topic_replaced(self, topic: str) -> TopicReplaced:
        name = self.backfill.backfill_id
        return TopicReplaced(topic, f"backfill {name} was of the old one; take another backfill id")

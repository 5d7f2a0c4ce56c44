"""What a live run and a backfill differ by: the lane in which they read a topic.

A lane is one reader of a topic. It has a name in the ledger, a consumer group, heads, plans and a lease of its own, and
it decides which ranges a run drains. Nothing else asks which of the two a run is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipestream.errors import LedgerConflict, TopicReplaced
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.records import OffsetRange
from pipestream.leases.names import lease_name
from pipestream.leases.store import Assignment, LeaseStore
from pipestream.ledger import Entry, Ledger, Plan

if TYPE_CHECKING:
    from pipestream.drain.request import HeldSlot

Chosen = tuple[list[OffsetRange], list[Entry]]
"""The ranges to drain, and entries for ranges that an earlier run drained and could not record."""


@dataclass(frozen=True, slots=True)
class Lane(ABC):
    """One reader of a topic, of one graph."""

    graph_id: str
    cluster_id: str

    is_live: ClassVar[bool]
    """Whether it is the graph's everyday lane, whose heads say what is drained."""
    id_to_change: ClassVar[str]
    """Which id another run needs, when the plan of this one can no longer be carried out."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the ledger's name for it."""

    @property
    def group(self) -> str:
        """Return the consumer group whose committed offsets are its ``G``."""
        return f"pipestream.{self.cluster_id}.{self.name}"

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """Return the only documents to drain; all, if empty."""
        return ()

    def lease_name(self, topic: str) -> str:
        """Return the name that its runs lease."""
        return lease_name(topic, self.name)

    @abstractmethod
    def plan_id(self, run_id: str, topic: str, slot: int) -> str:
        """Return the id of a run's plan, which a retry finds again."""

    @abstractmethod
    def slots(self, replicas: int) -> int:
        """Return how many slots its runs share a topic in, where the operator wants ``replicas``."""

    @abstractmethod
    def choose(self, slot: HeldSlot, broker: Broker, ledger: Ledger) -> Chosen:
        """Choose what a new run drains.

        :raises TerminalError: the ledger and the broker do not agree, or the records are gone.
        """

    @abstractmethod
    def check_plan(self, plan: Plan) -> None:
        """Refuse to resume a plan that was made for something else."""

    @abstractmethod
    def say_nothing_waits(self, topic: str, plan: Plan | None) -> str:
        """Return why a run has nothing to drain; empty if it was the run itself that drained it, in an earlier try."""

    @abstractmethod
    def find_idle(self, topic: str, identity: TopicIdentity, run_id: str, broker: Broker, ledger: Ledger) -> str:
        """Return why a run would have nothing to drain, without changing anything; empty if there is something.

        :raises TerminalError: a run would refuse to drain, for this reason.
        """

    @abstractmethod
    def find_holders(self, topic: str, run_id: str, leases: LeaseStore) -> Sequence[Assignment]:
        """Return the leases of others for which a run had better not start; none if it may."""

    @abstractmethod
    def finish(self, topic: str, leases: LeaseStore) -> None:
        """Clean up after a run that drained all that it was asked to."""

    def identify(self, topic: str, broker: Broker, ledger: Ledger) -> TopicIdentity:
        """Return the topic of a name, if it is still the one that the lane's heads belong to.

        Kafka may have given the name to another topic since.

        :raises TopicMissing: there is none.
        :raises TopicReplaced: it was deleted and made again.
        """
        identity = broker.identify(topic)
        if not ledger.is_same_topic(self.name, topic, identity.topic_id):
            raise self.topic_replaced(topic)
        return identity

    @abstractmethod
    def topic_replaced(self, topic: str) -> TopicReplaced:
        """Return the error for a topic that is not the one its heads belong to."""


def find_remaining(plan: Plan, ledger: Ledger) -> list[OffsetRange]:
    """Return what is left of a plan: a retry finds ranges recorded, by itself or by a run that recovered them.

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

"""What a lease is, and what every store of leases can do.

A lease is advice: it keeps two runs from doing the same work twice. What makes a stale holder harmless is
the ledger's compare-and-set and the producer's fencing, so no store needs to be perfect, only honest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from pipestream.leases.names import WORKERS, is_backfill_lease, leased_lane, leased_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

MAX_REPLICAS = 10_000
"""As many as a topic may have partitions: a replica beyond the last partition would have nothing to drain."""


EXPIRY_SLACK_S = 5.0
"""Beyond the TTL: a renewal sent just before its holder died is still to arrive, and an expiry to be agreed upon,
both by a server that may have much else to do."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One slot of a topic in a lane, held for a time."""

    name: str
    """What is leased; see ``names.py``."""
    slot: int
    holder: str
    token: int
    """The fencing token: grows with every new holder of the slot."""
    ttl_s: float
    """How long it outlives its last renewal. May be more than was asked for: Consul's least is 10 s."""
    handle: str = ""
    """What the store needs to know its own lease again (a Consul session's id)."""

    @property
    def topic(self) -> str:
        return leased_topic(self.name)


class TopicMode(StrEnum):
    """How the live lanes of a topic are drained. A backfill is a batch run in either mode."""

    BATCH = "batch"
    """By runs, each of which drains what waits when it starts."""
    STREAMING = "streaming"
    """By a process that is always on (a streaming drain or a sidecar). Batch runs skip the topic."""


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What the operator wants of a topic."""

    started: bool = True
    replicas: int = 1
    mode: TopicMode = TopicMode.BATCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", TopicMode(self.mode))
        if not 1 <= self.replicas <= MAX_REPLICAS:
            raise ValueError(f"replicas must be between 1 and {MAX_REPLICAS}, not {self.replicas}")


@dataclass(frozen=True, slots=True)
class Assignment:
    """One slot of a registered topic in a lane, and who has it. ``holder`` is empty for a free slot."""

    name: str
    """What is leased; see ``names.py``."""
    slot: int
    holder: str = ""
    token: int = 0
    until: datetime | None = None
    """When it runs out unless renewed; None where another program holds it, or has not said."""

    @property
    def topic(self) -> str:
        return leased_topic(self.name)

    @property
    def lane(self) -> str:
        """Return the graph that drains the topic in this slot, or ``GRAPH@ID`` for a backfill.

        Empty for a topic that is registered by its own name only, as no graph has been applied to it.
        """
        return leased_lane(self.name)


class LeaseStore(Protocol):
    """Keeps the registered names, the desired state of topics, and who holds which slot.

    A name is a topic, or a topic in a lane (``names.py``): leases are taken on the second, and what the operator wants
    is said of the first.

    Safe to share between threads. Every method may raise a TransientError when the server behind the store
    does not answer, within seconds; none waits forever. A name that cannot be leased raises IdInvalid.
    """

    def register(self, names: Sequence[str]) -> None:
        """Make names known; topics already known keep their desired state."""

    def unregister(self, names: Sequence[str]) -> None:
        """Forget names and their leases. With a topic, its desired state and all its lanes are forgotten."""

    def topics(self) -> list[str]:
        """Return the topics that are registered, by their own names or in the lane of a graph, sorted."""

    def desired(self, topic: str) -> DesiredState:
        """Return what the operator wants of a topic; an unknown topic is started, in batch mode, with one replica."""

    def set_desired(self, topic: str, state: DesiredState) -> None:
        """Change what the operator wants of a topic, and register it if it was not."""

    def acquire(self, name: str, slot: int, holder: str, ttl_s: float) -> Lease:
        """Take a slot, and register its name if it was not.

        Any slot may be asked for, also one beyond the desired replicas: only the runs respect that number.
        A holder that has the slot already is refused like any other, for it may be a second process with
        the same name.

        :raises LeaseUnavailable: someone has it; the error names the holder.
        """

    def renew(self, lease: Lease) -> None:
        """Hold a lease for another ``ttl_s`` from now.

        :raises LeaseLost: the slot is no longer ours, or the lease had run out.
        """

    def release(self, lease: Lease) -> None:
        """Give a slot back. Releasing what is no longer ours changes nothing."""

    def longest_expiry_s(self, ttl_s: float) -> float:
        """Return how long at most a lease that was asked for with this TTL stays taken after its holder died.

        Longer than the TTL where the store has a least TTL of its own, or is slow to see it run out.
        """

    def wait_free(self, name: str, slot: int, timeout_s: float) -> bool:
        """Wait until nobody holds a slot, and say whether that came true in time.

        Free when it returns is not free for you: acquire it, and expect to be refused.
        """

    def assignments(self, name: str | None = None) -> list[Assignment]:
        """Return every slot that is registered, held or free, in order.

        :param name: only those of a topic, in all its lanes, or only those of a topic in one lane.
        """

    def close(self) -> None:
        """Give back connections."""


def lay_out(replicas: Mapping[str, int], held: Sequence[Assignment], name: str | None = None) -> list[Assignment]:
    """Return every slot of the registered names, free or held, in order of name and slot.

    A slot beyond the replicas is there only while someone holds it, after scaling down. So is that of a backfill,
    which nobody takes again once it is done, and that of a topic's own name where graphs have lanes on the topic.

    :param replicas: of every registered name; those of a topic hold for its lanes.
    :param name: only the slots of this topic, or of this topic in a lane.
    """
    drained = {leased_topic(each) for each in replicas if leased_lane(each) and not is_backfill_lease(each)}
    slots: dict[tuple[str, int], Assignment] = {}
    for each, count in replicas.items():
        is_idle = is_backfill_lease(each) or each in drained
        for slot in range(0 if is_idle else replicas.get(leased_topic(each), count)):
            slots[each, slot] = Assignment(each, slot)
    slots.update({(found.name, found.slot): found for found in held if found.name in replicas})
    return [slots[key] for key in sorted(slots) if is_asked_for(key[0], name)]


def is_asked_for(name: str, asked: str | None) -> bool:
    """Tell whether a registered name is among those that were asked for: all topics', a topic's, or a single one."""
    return name != WORKERS if asked is None else asked in (name, leased_topic(name))


def check_request(slot: int, holder: str, ttl_s: float) -> None:
    """Refuse what no store can lease.

    :raises ValueError: a slot that cannot be, a holder without a name, or a lease for no time or over a day.
    """
    if not 0 <= slot < MAX_REPLICAS:
        raise ValueError(f"slot must be between 0 and {MAX_REPLICAS - 1}, not {slot}")
    if not holder.strip() or not holder.isprintable():
        raise ValueError(f"holder must be a name that can be shown to the next one to ask, not {holder!r}")
    if not 0 < ttl_s <= 86_400:
        raise ValueError(f"ttl_s must be more than 0 and at most 86400, not {ttl_s}")

"""Which slot a run takes, which partitions the slot drains, and when to give it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import LeaseUnavailable, SlotsUnavailable

if TYPE_CHECKING:
    from pipestream.leases.store import Lease, LeaseStore


def slot_partitions(slot: int, replicas: int, partitions: int) -> list[int]:
    """Return the partitions (of ``partitions`` in all) that slot ``slot`` of ``replicas`` drains.

    Every partition belongs to exactly one slot. Use the replicas that were desired when the run was
    planned: two runs that planned with different replicas may share a partition, and the producer's
    fencing, not this function, is what settles that.
    """
    if replicas < 1:
        raise ValueError(f"replicas must be positive, not {replicas}")
    if not 0 <= slot < replicas:
        raise ValueError(f"slot must be between 0 and {replicas - 1}, not {slot}")
    if partitions < 0:
        raise ValueError(f"partitions must not be negative, not {partitions}")
    return list(range(slot, partitions, replicas))


def acquire_any(store: LeaseStore, topic: str, holder: str, ttl_s: float) -> Lease:
    """Take the lowest free slot of a topic's desired replicas.

    Whether the topic is to be drained at all (``desired().started``) is the caller's to ask.

    :raises LeaseUnavailable: every slot has a holder; the error names them.
    """
    replicas = store.desired(topic).replicas
    refusals: list[LeaseUnavailable] = []
    for slot in range(replicas):
        try:
            return store.acquire(topic, slot, holder, ttl_s)
        except LeaseUnavailable as refused:
            refusals.append(refused)
    if replicas == 1:
        raise refusals[0]
    raise SlotsUnavailable(topic, [refused.holder for refused in refusals])


def should_yield(store: LeaseStore, lease: Lease) -> bool:
    """Say whether a holder is to give its slot back: the topic was stopped, or scaled below the slot.

    Ask between two pieces of work. Scaling down thereby gives up the highest slots first.
    """
    state = store.desired(lease.topic)
    return not state.started or lease.slot >= state.replicas

"""Which partitions a slot drains."""

from __future__ import annotations


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

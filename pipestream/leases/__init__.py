"""Leases: who drains which slot of which topic, and what the operator wants of it."""

from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.open import open_lease_store
from pipestream.leases.store import Assignment, DesiredState, Lease, LeaseStore, TopicMode

__all__ = [
    "Assignment",
    "DesiredState",
    "Lease",
    "LeaseKeeper",
    "LeaseStore",
    "TopicMode",
    "open_lease_store",
]

"""Leases: who drains which slot of which topic, and what the operator wants of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.extras import needs_extra
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.slots import slot_partitions
from pipestream.leases.store import Assignment, DesiredState, Lease, LeaseStore

if TYPE_CHECKING:
    from pipestream.settings import Settings

__all__ = [
    "Assignment",
    "DesiredState",
    "Lease",
    "LeaseKeeper",
    "LeaseStore",
    "open_lease_store",
    "slot_partitions",
]


def open_lease_store(settings: Settings) -> LeaseStore:
    """Return the store that ``settings.leases`` names. It connects when first used; close it.

    :raises SettingsInvalid: the address of its server cannot be used.
    :raises ExtraMissing: its client is not installed.
    """
    # Imported here because a DAG file that only names topics must not pay for two clients.
    match settings.leases:
        case "consul":
            with needs_extra("consul"):
                from pipestream.leases.consul import ConsulLeaseStore

            return ConsulLeaseStore(settings)
        case "sql":
            from pipestream.leases.sql import SqlLeaseStore

            return SqlLeaseStore(settings)
        case "none":
            from pipestream.leases.none import NoLeaseStore

            return NoLeaseStore()

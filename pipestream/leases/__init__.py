"""Leases: who drains which slot of which topic, and what the operator wants of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import SettingsInvalid
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.slots import slot_partitions
from pipestream.leases.store import Assignment, DesiredState, Lease, LeaseStore
from pipestream.plugins import PluginContext, PluginGroup, find_plugin, plugin_names

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
    :raises PluginBroken: it is of another package, and fails.
    """
    plugin = find_plugin(PluginGroup.LEASE_STORE, settings.leases)
    if plugin is None:
        known = ", ".join(plugin_names(PluginGroup.LEASE_STORE))
        raise SettingsInvalid(f"there is no lease store {settings.leases!r}; there are: {known}")
    try:
        store: LeaseStore = plugin.make(PluginContext(settings))
    except ValueError as error:
        raise SettingsInvalid(f"lease store {settings.leases}: {error}") from error
    return store

"""Open the lease store that the settings name. Those of the product are plugins here; each imports its client late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import SettingsInvalid
from pipestream.extras import needs_extra
from pipestream.plugins import PluginContext, PluginGroup, find_plugin, plugin_names

if TYPE_CHECKING:
    from pipestream.leases.store import LeaseStore
    from pipestream.settings import Settings


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


def open_consul(context: PluginContext) -> LeaseStore:
    """Return leases as Consul sessions and locks."""
    with needs_extra("consul"):
        from pipestream.leases.consul import ConsulLeaseStore

    return ConsulLeaseStore(context.settings)


def open_sql(context: PluginContext) -> LeaseStore:
    """Return leases in PostgreSQL."""
    from pipestream.leases.sql import SqlLeaseStore

    return SqlLeaseStore(context.settings)


def open_file(context: PluginContext) -> LeaseStore:
    """Return leases in a folder of this machine."""
    from pipestream.leases.file import FileLeaseStore

    return FileLeaseStore(context.settings)


def open_none(_context: PluginContext) -> LeaseStore:
    """Return a store that grants every lease."""
    from pipestream.leases.none import NoLeaseStore

    return NoLeaseStore()

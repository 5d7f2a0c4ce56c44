"""The lease stores of the product, as plugins. Each imports its client when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.extras import needs_extra

if TYPE_CHECKING:
    from pipestream.leases.store import LeaseStore
    from pipestream.plugins.context import PluginContext


def open_consul(context: PluginContext) -> LeaseStore:
    """Return leases as Consul sessions and locks."""
    with needs_extra("consul"):
        from pipestream.leases.consul import ConsulLeaseStore

    return ConsulLeaseStore(context.settings)


def open_sql(context: PluginContext) -> LeaseStore:
    """Return leases in PostgreSQL."""
    from pipestream.leases.sql import SqlLeaseStore

    return SqlLeaseStore(context.settings)


def open_none(_context: PluginContext) -> LeaseStore:
    """Return a store that grants every lease."""
    from pipestream.leases.none import NoLeaseStore

    return NoLeaseStore()

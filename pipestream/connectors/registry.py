"""The connectors by the ``kind`` that a graph names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import ConnectorInvalid
from pipestream.plugins import PluginContext, PluginGroup, find_plugin, plugin_names

if TYPE_CHECKING:
    from pipestream.connectors.connector import Connector
    from pipestream.graph.model import Connector as ConnectorSpec


def make_connector(spec: ConnectorSpec, context: PluginContext) -> Connector:
    """Return the connector that a datasource of the graph asks for.

    :raises ConnectorInvalid: there is no such kind, or its options cannot be used.
    :raises PluginBroken: it is of another package, and fails.
    """
    plugin = find_plugin(PluginGroup.CONNECTOR, spec.kind)
    if plugin is None:
        known = ", ".join(plugin_names(PluginGroup.CONNECTOR))
        raise ConnectorInvalid(f"there is no connector {spec.kind!r}; there are: {known}")
    try:
        connector: Connector = plugin.make(spec.options, context)
    except ValueError as error:
        raise ConnectorInvalid(f"{spec.kind} connector: {error}") from error
    return connector


def check_connector(spec: ConnectorSpec) -> None:
    """Refuse a connector that cannot be made with the settings of this process.

    :raises ConnectorInvalid: there is no such kind, or its options cannot be used.
    :raises PluginBroken: it is of another package, and fails.
    """
    make_connector(spec, PluginContext())

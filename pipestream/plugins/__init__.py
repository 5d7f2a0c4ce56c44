"""What can be added to the product by other packages: connectors, lease stores, module kinds and transports.

A package names its factory in an entry point of one of the groups in ``PluginGroup``. The factories of the product
itself are found and loaded by the same functions. ``docs/extending.md`` shows how to write one.
"""

from pipestream.plugins.registry import Plugin, PluginContext, PluginGroup, find_plugin, list_plugins, plugin_names

__all__ = ["Plugin", "PluginContext", "PluginGroup", "find_plugin", "list_plugins", "plugin_names"]

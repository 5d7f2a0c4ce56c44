"""Find plugins and load them. To find one imports nothing; a broken plugin only breaks what uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from pipestream.errors import PipestreamError, PluginBroken, SettingsInvalid
from pipestream.version import VERSION

if TYPE_CHECKING:
    from pipestream.settings import Settings

OWN_PACKAGE = "pipestream-airflow"


class PluginGroup(StrEnum):
    """What a plugin can be; the values are the names of groups of entry points."""

    CONNECTOR = "pipestream.connectors"
    LEASE_STORE = "pipestream.lease_stores"
    MODULE_KIND = "pipestream.module_kinds"
    TRANSPORT = "pipestream.transports"

    @property
    def noun(self) -> str:
        """Return what one plugin of the group is called in messages."""
        return self.name.lower().replace("_", " ")


# By name, so that to list them imports none of them.
_BUILT_IN = {
    PluginGroup.CONNECTOR: {
        "csv": "pipestream.connectors.row_files:open_csv",
        "feed": "pipestream.connectors.feed:open_feed",
        "folder": "pipestream.connectors.folder:open_folder",
        "jsonl": "pipestream.connectors.row_files:open_jsonl",
        "s3": "pipestream.connectors.s3_prefix:open_s3",
        "sitemap": "pipestream.connectors.sitemap:open_sitemap",
        "sql": "pipestream.connectors.sql_query:open_sql",
    },
    PluginGroup.LEASE_STORE: {
        "consul": "pipestream.leases.open:open_consul",
        "file": "pipestream.leases.open:open_file",
        "none": "pipestream.leases.open:open_none",
        "sql": "pipestream.leases.open:open_sql",
    },
    PluginGroup.MODULE_KIND: {
        "grpc": "pipestream.modules.resolve:open_grpc",
        "python": "pipestream.modules.resolve:open_python",
        "runtime": "pipestream.modules.runtime.module:open_runtime",
        "unix": "pipestream.modules.resolve:open_unix",
    },
    PluginGroup.TRANSPORT: {"grpc": "pipestream.engine.remote:open_engine"},
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A factory under a name, and the package that it comes from."""

    group: PluginGroup
    name: str
    package: str
    version: str
    target: str
    """Where the factory is, as ``module:attribute``."""

    @property
    def is_built_in(self) -> bool:
        return self.package == OWN_PACKAGE

    def load(self) -> Any:
        """Import the factory.

        :raises PluginBroken: it cannot be imported, or is not callable.
        """
        try:
            factory = EntryPoint(self.name, self.target, self.group.value).load()
        except Exception as error:
            raise self.broken(f"{self.target} cannot be imported: {type(error).__name__}: {error}") from error
        if not callable(factory):
            raise self.broken(f"{self.target} is {type(factory).__name__}, which cannot be called")
        return factory

    def make(self, *arguments: Any) -> Any:
        """Call the factory.

        :raises ValueError: the factory cannot use its arguments, and says why.
        :raises PluginBroken: it cannot be imported, or fails otherwise.
        """
        factory = self.load()
        try:
            return factory(*arguments)
        except (PipestreamError, ValueError):
            raise
        except Exception as error:
            raise self.broken(f"{self.target} failed: {type(error).__name__}: {error}") from error

    def broken(self, reason: str) -> PluginBroken:
        """Return the error that names this plugin."""
        return PluginBroken(self.group.noun, self.name, f"{self.package} {self.version}".strip(), reason)


class PluginContext:
    """What a plugin's factory gets besides what a graph says: the settings, and the secrets among them for plugins."""

    def __init__(self, settings: Settings | None = None) -> None:
        """:param settings: those of this process unless given, read when a factory first asks for them."""
        self._given = settings

    @cached_property
    def settings(self) -> Settings:
        """Return the settings. They hold secrets of the product: do not log them."""
        from pipestream.settings import load_settings

        return self._given or load_settings()

    def secret(self, name: str) -> str:
        """Return a secret of the setting ``plugin_secrets``. Do not log it, nor put it into a message.

        :raises SettingsInvalid: it is not set.
        """
        found = self.settings.plugin_secrets.get(name)
        if found is None:
            raise SettingsInvalid(
                f"the secret {name!r} is not set; add it to the setting plugin_secrets, a table in TOML, or a JSON "
                f'object in PIPESTREAM_PLUGIN_SECRETS such as {{"{name}": "…"}}'
            )
        return found.get_secret_value()


def find_plugin(group: PluginGroup, name: str) -> Plugin | None:
    """Return the plugin of a name, or None if there is none.

    Installed packages are only asked for names that are not built in, because that takes milliseconds.

    :raises PluginBroken: several packages have one of this name.
    """
    if target := _BUILT_IN[group].get(name):
        return _built_in(group, name, target)
    found = [plugin for plugin in _installed(group) if plugin.name == name]
    if len(found) > 1:
        packages = " and ".join(sorted(plugin.package for plugin in found))
        raise found[0].broken(f"both {packages} provide it; uninstall one of them")
    return found[0] if found else None


def plugin_names(group: PluginGroup) -> list[str]:
    """Return the names of all plugins of a group, sorted."""
    return sorted({plugin.name for plugin in list_plugins(group)})


def list_plugins(group: PluginGroup) -> list[Plugin]:
    """Return the plugins of a group: the built-in ones, then those of installed packages, each sorted by name.

    A plugin with the name of a built-in one is listed too; it is never used.
    """
    own = [_built_in(group, name, target) for name, target in sorted(_BUILT_IN[group].items())]
    return own + sorted(_installed(group), key=lambda plugin: (plugin.name, plugin.package))


def check_plugin(plugin: Plugin) -> str:
    """Return why a plugin cannot be used, or nothing. Imports it."""
    if not plugin.is_built_in and plugin.name in _BUILT_IN[plugin.group]:
        return f"never used: {plugin.name} is built in; the package has to choose another name"
    try:
        plugin.load()
    except PipestreamError as error:
        return str(error)
    return ""


def _built_in(group: PluginGroup, name: str, target: str) -> Plugin:
    return Plugin(group, name, OWN_PACKAGE, VERSION, target)


def _installed(group: PluginGroup) -> Iterator[Plugin]:
    for entry in entry_points(group=group.value):
        package = entry.dist.name if entry.dist else ""
        yield Plugin(group, entry.name, package, entry.dist.version if entry.dist else "", entry.value)

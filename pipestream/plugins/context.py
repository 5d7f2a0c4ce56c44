"""What a plugin's factory is told besides what a graph says."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pipestream.errors import SettingsInvalid

if TYPE_CHECKING:
    from pipestream.settings import Settings


class PluginContext:
    """The settings, and the secrets among them that are meant for plugins."""

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

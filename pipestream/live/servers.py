"""The servers that Airflow can keep up: how each is started, and where it answers ``/health`` and ``/metrics``."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from pipestream.errors import SettingsInvalid
from pipestream.settings import Settings

_COMMANDS: dict[str, tuple[str, ...]] = {
    "engine": ("engine", "serve", "--metrics-port", "{port}"),
    "repository": ("repository", "serve", "--http", "{host}:{port}"),
    "sidecar": ("sidecar", "run", "--telemetry-port", "{port}"),
}
"""The arguments of ``pipestream`` that start each server, with the place of its telemetry."""


def server_url(server: str, settings: Settings) -> str:
    """Return where a server answers ``/health`` and ``/metrics``.

    :raises SettingsInvalid: the setting is not an address.
    """
    name = f"live_{server}_url"
    url = str(getattr(settings, name)).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port is None:
        raise SettingsInvalid(f"{name} must be http://HOST:PORT, not {url!r}")
    return url


def server_command(server: str, settings: Settings) -> list[str]:
    """Return the command that starts a server, with the telemetry at the port that ``server_url`` names.

    :raises SettingsInvalid: as for ``server_url``.
    """
    parts = urlsplit(server_url(server, settings))
    if server not in _COMMANDS:
        raise SettingsInvalid(f"Airflow cannot start a {server} yet; run it elsewhere and use `external`")
    arguments = [each.format(host=parts.hostname, port=parts.port) for each in _COMMANDS[server]]
    return [sys.executable, "-m", "pipestream.cli.main", *arguments]

"""A stack of only some servers, for tests that break them and must not break those of other tests."""

from __future__ import annotations

from pathlib import Path

from pipestream.local import Stack, load_spec
from pipestream.local.server import Server, Site


class PartOfStack(Stack):
    """The full stack, of which only the servers called ``names`` are ever started."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        super().__init__(load_spec(profile="full", folder=folder, free_ports=True, durable=False))
        self._names = names

    def _list(self, site: Site) -> list[Server]:
        return [server for server in super()._list(site) if server.name in self._names]

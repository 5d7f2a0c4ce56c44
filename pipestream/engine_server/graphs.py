"""Follow the applied versions of graphs: an applied or rolled-back version is used within seconds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import ActiveGraph, GraphVersions
from pipestream.engine_server.served import ServedGraph
from pipestream.errors import PipestreamError
from pipestream.graph.flow import why_inactive
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Directory:
    """The active graphs at one moment, and where documents enter them."""

    graphs: Mapping[str, ServedGraph] = field(default_factory=dict)
    activation: int = 0

    def entries(self, datasource_id: str) -> list[ServedGraph]:
        """Return every graph that has the datasource, in order of their ids."""
        return [served for served in self.graphs.values() if datasource_id in served.graph.datasource_by_id]

    def active_entries(self, datasource_id: str) -> tuple[list[ServedGraph], list[str]]:
        """Return the graphs that take the datasource's documents, and why the others do not."""
        active, reasons = [], []
        for served in self.entries(datasource_id):
            reason = why_inactive(served.graph, datasource_id)
            if reason:
                reasons.append(reason)
            else:
                active.append(served)
        return active, reasons

    def with_node(self, node_id: str, graph_id: str = "") -> list[ServedGraph]:
        """Return the graphs that have a node; only the one named, if one is."""
        named = [self.graphs[graph_id]] if graph_id in self.graphs else []
        candidates = named if graph_id else list(self.graphs.values())
        return [served for served in candidates if node_id in served.graph.node_by_id]


class LiveGraphs:
    """Keeps a directory of the active graphs up to date. Start it in the loop; ``close`` it there."""

    def __init__(self, settings: Settings, own_address: str, store: ObjectStore) -> None:
        self._settings = settings
        self._own_address = own_address
        self._store = store
        self._versions = GraphVersions(settings)
        self._active = ActiveGraphs(self._versions)
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self.directory = Directory()
        self.last_error = ""
        """Why the last look failed; empty: it did not."""
        self.checked_at = 0.0

    async def start(self) -> None:
        """Read the active graphs, then follow them.

        :raises DatabaseUnavailable: PostgreSQL does not answer, so no graph is known.
        """
        await self._look()
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            # Not cancelled: the thread of a look would go on, and open what nobody closes.
            await self._task
        for served in self.directory.graphs.values():
            served.replaced()
        await asyncio.to_thread(self._versions.close)

    async def _follow(self) -> None:
        while not await self._is_closing(self._settings.engine_graph_poll_s):
            try:
                await self._look()
            except Exception as error:
                # The graphs that are known stay in use, and the next look may succeed.
                if not self.last_error:
                    trace = None if isinstance(error, PipestreamError) else error
                    log.warning(
                        "the active graphs cannot be read, so the known ones stay in use: %s", error, exc_info=trace
                    )
                self.last_error = str(error) or type(error).__name__

    async def _is_closing(self, timeout_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), timeout_s)
        return self._closing.is_set()

    async def _look(self) -> None:
        found = await asyncio.to_thread(self._read, self.directory)
        self.checked_at = time.monotonic()
        self.last_error = ""
        if found is None:
            return
        before, self.directory = self.directory, found
        for graph_id, served in before.graphs.items():
            if found.graphs.get(graph_id) is not served:
                served.replaced()

    def _read(self, known: Directory) -> Directory | None:
        """Return the directory of now, or None if it is the known one. Opens what is new; runs in a thread."""
        activation = self._versions.latest_activation()
        if activation == known.activation and known.graphs:
            return None
        graphs: dict[str, ServedGraph] = {}
        for graph_id, active in self._active.read().items():
            served = known.graphs.get(graph_id)
            if served is None or (served.version, served.digest) != (active.version, active.built.digest):
                served = self._open(active, served)
            if served is not None:
                graphs[graph_id] = served
        for graph_id in self._active.unreadable.keys() & known.graphs.keys():
            graphs[graph_id] = known.graphs[graph_id]  # as where a version cannot be opened
        return Directory(dict(sorted(graphs.items())), activation)

    def _open(self, active: ActiveGraph, before: ServedGraph | None) -> ServedGraph | None:
        """Return the new version, or the one before it where the new one cannot be opened."""
        graph_id = active.built.graph.graph_id
        try:
            served = ServedGraph(active, self._settings, self._own_address, self._store)
        except PipestreamError as error:
            kept = f"version {before.version} stays in use" if before else "it is not served"
            log.error("graph %s: version %d cannot be opened, %s: %s", graph_id, active.version, kept, error)
            return before
        log.info("graph %s: version %d is served from now on", graph_id, active.version)
        return served

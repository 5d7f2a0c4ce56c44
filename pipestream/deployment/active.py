"""Follow the active versions of graphs. Every server does it in this way, so that one graph never stops the others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pipestream.deployment.versions import ActiveGraph
from pipestream.graph.proto import restore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.deployment.versions import GraphVersions
    from pipestream.graph.model import Graph

log = logging.getLogger(__name__)


class ActiveGraphs:
    """The active version of every graph. A version is read once, and then kept while it is active."""

    def __init__(self, versions: GraphVersions) -> None:
        self._versions = versions
        self._graphs: Mapping[str, ActiveGraph] = {}
        self.unreadable: Mapping[str, int] = {}
        """Graphs that the last look left out, and the numbers of their active versions."""

    def read(self) -> Mapping[str, ActiveGraph]:
        """Return the active versions by the ids of their graphs.

        A version that cannot be read (a newer release applied it) is left out, and does not stop the others.

        :raises DatabaseUnavailable: PostgreSQL did not answer.
        """
        graphs: dict[str, ActiveGraph] = {}
        unreadable: dict[str, int] = {}
        for graph_id, (version, digest) in self._versions.active_versions().items():
            found = self._graphs.get(graph_id)
            if found is None or (found.version, found.built.digest) != (version, digest):
                found = self._restore(graph_id, version)
            if found is None:
                unreadable[graph_id] = version
            else:
                graphs[graph_id] = found
        # At once: other threads read them.
        self._graphs, self.unreadable = graphs, unreadable
        return graphs

    def find(self, graph_id: str) -> Graph | None:
        """Return a graph as it was last read; None if it has no active version any more. Asks no server."""
        kept = self._graphs.get(graph_id)
        return kept.built.graph if kept else None

    def _restore(self, graph_id: str, version: int) -> ActiveGraph | None:
        content = self._versions.content(graph_id, version)
        try:
            return ActiveGraph(version, restore(content))
        except Exception as error:  # nobody knows how another release's content fails here
            if self.unreadable.get(graph_id) != version:  # else the log has it
                log.error("graph %s is left out: its active version %d cannot be read: %s", graph_id, version, error)
            return None

"""Which datasources there are: those of the applied graphs, followed while the server runs."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import GraphVersions
from pipestream.errors import DatasourceContested, PipestreamError

if TYPE_CHECKING:
    from pipestream.graph.model import Datasource, Graph
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

# How old the answer may be for a datasource that is known, and for one that is not: its graph may just be applied.
_KNOWN_S = 2.0
_UNKNOWN_S = 0.2


class Datasources:
    """The datasources of the active versions of all graphs. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._versions = GraphVersions(settings)
        self._active = ActiveGraphs(self._versions)
        self._lock = threading.Lock()
        self._graphs: dict[str, Graph] = {}
        self._found: dict[str, Datasource] = {}
        self._contested: dict[str, dict[str, str]] = {}
        self._read_at = float("-inf")

    def close(self) -> None:
        """Give back the connection."""
        self._versions.close()

    def find(self, datasource_id: str) -> Datasource | None:
        """Return a datasource of an applied graph, as its active version has it, seconds after it was applied.

        :raises DatasourceContested: graphs have it for different accounts.
        :raises DatabaseUnavailable: PostgreSQL did not answer, and nothing was read before.
        """
        age_s = _KNOWN_S if datasource_id in self._found else _UNKNOWN_S
        if time.monotonic() - self._read_at > age_s:
            self._refresh(age_s)
        if datasource_id in self._contested:
            raise DatasourceContested(datasource_id, self._contested[datasource_id])
        return self._found.get(datasource_id)

    def all(self) -> list[Datasource]:
        """Return all of them that belong to one account."""
        self.find("")
        return list(self._found.values())

    def has_graph(self, graph_id: str) -> bool:
        """Tell whether a graph of this id is applied."""
        self.find("")
        return graph_id in self._graphs

    def _refresh(self, age_s: float) -> None:
        with self._lock:
            if time.monotonic() - self._read_at <= age_s:
                return  # another thread has, while this one waited
            try:
                self._read()
            except PipestreamError:
                if not self._graphs:
                    raise
                log.warning("the applied graphs cannot be read; the known ones are used", exc_info=True)
            self._read_at = time.monotonic()

    def _read(self) -> None:
        graphs = {graph_id: active.built.graph for graph_id, active in self._active.read().items()}
        # Where the active version cannot be read, the datasources of the one before it stay in use.
        kept = {graph_id: self._graphs[graph_id] for graph_id in self._active.unreadable if graph_id in self._graphs}
        self._graphs = graphs | kept
        # Where several graphs have a datasource, the first one's counts, by the graphs' ids.
        found: dict[str, Datasource] = {}
        accounts: dict[str, dict[str, str]] = {}
        for graph_id, graph in sorted(self._graphs.items()):
            for source in graph.datasources:
                found.setdefault(source.datasource_id, source)
                accounts.setdefault(source.datasource_id, {})[graph_id] = source.account_id
        # No graph is applied against another one's account. Two that are applied at the same moment may be.
        self._contested = {each: by_graph for each, by_graph in accounts.items() if len(set(by_graph.values())) > 1}
        self._found = {each: source for each, source in found.items() if each not in self._contested}

"""The versions of graphs: what was applied when, by whom, and which one is active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pipestream.errors import TerminalError

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from pipestream.graph.model import Graph


class VersionMissing(TerminalError):
    """There is no such version of a graph."""

    def __init__(self, graph_id: str, version: int | str) -> None:
        self.graph_id = graph_id
        self.version = version
        super().__init__(f"graph {graph_id} has no version {version}; `pipestream graph history {graph_id}` lists them")


@dataclass(frozen=True, slots=True)
class GraphVersion:
    """One version of a graph, numbered from 1. Its content never changes."""

    graph_id: str
    version: int
    hash: str
    applied_by: str
    applied_at: datetime
    active: bool
    active_since: datetime | None = None
    """When it became the active one, if it is."""
    activated_by: str = ""


class VersionStore(Protocol):
    """Keeps every version of every graph, and which one is active."""

    def save(self, graph: Graph, *, applied_by: str) -> GraphVersion:
        """Make a graph the active version of its id.

        A new version is made only for a content that no version has yet.
        """

    def graph_ids(self) -> list[str]:
        """Return the ids of all graphs that have versions, sorted."""

    def history(self, graph_id: str) -> list[GraphVersion]:
        """Return all versions of a graph, newest first; none for a graph that was never applied."""

    def active(self, graph_id: str) -> Graph | None:
        """Return the active version's graph, or None for a graph that was never applied."""

    def get(self, graph_id: str, version: int | str) -> Graph:
        """Return the graph of a version, given by number, or by hash or the start of one.

        :raises VersionMissing: there is none, or the start of the hash fits several.
        """

    def rollback(self, graph_id: str, version: int, *, applied_by: str) -> GraphVersion:
        """Make an older version the active one again.

        :raises VersionMissing: there is none.
        """

    def leftovers(self, graph_id: str) -> list[str]:
        """Return the topics that the graph no longer needs but that could not be retired yet, sorted."""

    def note_leftovers(self, graph_id: str, topics: Collection[str]) -> None:
        """Replace the list of such topics, so that a later apply tries again, also after a crash."""

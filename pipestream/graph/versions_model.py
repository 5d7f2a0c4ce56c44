"""The versions of graphs: what was applied when, by whom, and which one is active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import TerminalError

if TYPE_CHECKING:
    from datetime import datetime


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

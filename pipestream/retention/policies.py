"""How long which documents are kept: what all versions of all graphs say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pipestream.deployment.versions import GraphVersions
from pipestream.documents import segments

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

UPLOADS = "documents"
BLOBS = "blobs"
OUTPUTS = "streams"
SEGMENTS = segments.ROOT


@dataclass(frozen=True, slots=True)
class Policies:
    """How long documents are kept. What is not named here is kept forever."""

    outputs: Mapping[str, timedelta]
    """By node: what nodes wrote."""
    uploads: Mapping[tuple[str, str], timedelta]
    """By account and datasource: what was uploaded, and its blobs."""

    def keep(self, key: str) -> timedelta | None:
        """Return how long an object is kept; None means forever."""
        match key.split("/"):
            case [root, _account, _stream, file] if root == OUTPUTS:
                # Node ids have no dots; what follows one tells apart several documents of one node.
                return self.outputs.get(file.partition(".")[0])
            case [root, _account, node, _hour, _file] if root == SEGMENTS:
                return self.outputs.get(node)
            case [root, account, datasource, _document, _file] if root in (UPLOADS, BLOBS):
                return self.uploads.get((account, datasource))
        return None

    def roots(self) -> list[str]:
        """Return below which prefixes something may expire."""
        # Blobs last: what refers to them may go before them.
        rules = ((OUTPUTS, self.outputs), (SEGMENTS, self.outputs), (UPLOADS, self.uploads), (BLOBS, self.uploads))
        return [root for root, found in rules if found]


def find_policies(histories: Iterable[Sequence[Graph]]) -> Policies:
    """Return what graphs say about keeping documents.

    Of one graph the newest version decides that has the node or the datasource, so that documents of a node that was
    removed expire as well. Where several graphs have a node or a datasource of one name, the longest time counts.

    :param histories: the versions of each graph, the active one first.
    """
    outputs: dict[str, list[float | None]] = {}
    uploads: dict[tuple[str, str], list[float | None]] = {}
    for versions in histories:
        nodes: dict[str, float | None] = {}
        sources: dict[tuple[str, str], float | None] = {}
        for graph in versions:
            for node in graph.nodes:
                nodes.setdefault(node.node_id, node.keep_documents_hours)
            for source in graph.datasources:
                sources.setdefault((source.account_id, source.datasource_id), source.keep_documents_hours)
        for node_id, hours in nodes.items():
            outputs.setdefault(node_id, []).append(hours)
        for place, hours in sources.items():
            uploads.setdefault(place, []).append(hours)
    return Policies(
        {node_id: longest for node_id, said in outputs.items() if (longest := _longest(said)) is not None},
        {place: longest for place, said in uploads.items() if (longest := _longest(said)) is not None},
    )


def read_histories(settings: Settings) -> list[list[Graph]]:
    """Return the versions of every graph that was ever applied, the active one first."""
    with closing(GraphVersions(settings)) as versions:
        return [
            [
                versions.get(graph_id, each.version)
                for each in sorted(versions.history(graph_id), key=lambda each: (not each.active, -each.version))
            ]
            for graph_id in versions.graph_ids()
        ]


def _longest(said: Sequence[float | None]) -> timedelta | None:
    hours = [each for each in said if each is not None]
    return timedelta(hours=max(hours)) if len(hours) == len(said) else None

"""Decide whether the active version of a graph leaves a topic alone that the graph of a run would drain.

A run has its graph from a file. The pages pause a datasource in a new version, which all that is kept up follows. Where
the file cannot be written, or nobody has updated it yet, runs would go on without this question.

The file alone decides while PostgreSQL does not answer. A drain needs PostgreSQL for nothing else, unless its leases
are there, and the file is what was deployed. What must wait in any case can be stopped with its leases.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from pipestream.deployment.versions import GraphVersions
from pipestream.errors import DatabaseUnavailable
from pipestream.graph.flow import why_inactive

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

LEASES_WITHOUT_SERVER = ("file", "none")
"""With these a drain works without PostgreSQL, for example in CI. Then nothing but the file can pause it."""


def find_active(settings: Settings, graph_ids: Collection[str]) -> dict[str, Graph]:
    """Return the active versions of graphs, as far as they can be found.

    The file alone decides on a graph that was never applied, and on all graphs while PostgreSQL does not answer, which
    is then logged.
    """
    if settings.leases in LEASES_WITHOUT_SERVER:
        return {}
    wanted = sorted(set(graph_ids))
    try:
        with closing(GraphVersions(settings)) as versions:
            found = {graph_id: versions.active(graph_id) for graph_id in wanted}
    except DatabaseUnavailable as error:
        log.warning(
            "whether %s is paused in its active version is not known, so its file alone decides: %s",
            ", ".join(wanted),
            error,
        )
        return {}
    return {graph_id: graph for graph_id, graph in found.items() if graph is not None}


def why_left_alone(active: Mapping[str, Graph], graph_id: str, datasource_id: str = "") -> str:
    """Return why the active version of a graph leaves the graph or one of its datasources alone; empty if it does not.

    :param active: what ``find_active`` has returned.
    """
    graph = active.get(graph_id)
    if graph is None or not why_inactive(graph, datasource_id):
        return ""
    state = f"graph {graph_id} is in design" if why_inactive(graph) else f"datasource {datasource_id} is paused"
    return (
        f"{state} in the active version of the graph, whatever the file says; to resume, switch it on again where it "
        f"was switched off, or apply the file: `pipestream graph apply FILE`"
    )

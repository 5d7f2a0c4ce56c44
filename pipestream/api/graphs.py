"""Load, validate and apply graphs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.graph import load
from pipestream.graph.load import GraphCheck
from pipestream.graph.model import Graph
from pipestream.graph.module_rules import AskModules
from pipestream.user import user_name

if TYPE_CHECKING:
    from pipestream.deployment.apply import Applied
    from pipestream.settings import Settings

GraphSource = Graph | Path | str
"""A graph, or the path of its YAML file."""


def load_graph(file: Path | str) -> Graph:
    """Return the graph of a YAML file.

    Modules and connectors that it names are not looked up: ``validate_graph`` and ``apply_graph`` do that.

    :raises GraphInvalid: the file cannot be read or breaks rules; the error lists every problem.
    """
    return load.load_graph(Path(file))


def validate_graph(file: Path | str, *, look_up: bool = True, ask_modules: bool = False) -> GraphCheck:
    """Return every problem and warning of a graph file, with line and hint. Raises nothing.

    :param look_up: also import the graph's Python modules and find its connectors.
    :param ask_modules: also ask its gRPC modules which config they take. One that does not answer is a warning.
    """
    return load.check_graph_file(Path(file), look_up=look_up, ask=AskModules() if ask_modules else None)


def apply_graph(
    graph: GraphSource,
    *,
    applied_by: str = "",
    force: bool = False,
    base_version: int | None = None,
    settings: Settings | None = None,
) -> Applied:
    """Make a graph the active one: create its topics, register them for leases and keep it as a version.

    Topics that no graph needs any more are deleted, unless they hold unread records.

    :param applied_by: who applies it, for the history of versions; the user of this process unless given.
    :param force: delete topics that are no longer needed even if they hold unread records.
    :param base_version: the version that must be active now; 0: none may be. Without it, whichever is.
    :raises GraphInvalid: the graph breaks a rule; nothing has changed.
    :raises VersionConflict: another version is the active one.
    :raises TransientError: a server did not answer; apply it again.
    """
    from pipestream.deployment import apply
    from pipestream.deployment.versions import GraphVersions
    from pipestream.drain.check import find_lag
    from pipestream.errors import OffsetsExpired, TopicRewound
    from pipestream.leases import open_lease_store
    from pipestream.settings import load_settings

    settings = settings or load_settings()
    file = None if isinstance(graph, Graph) else Path(graph)
    graph = read_graph(graph)

    def is_drained(topic: str) -> bool:
        try:
            return find_lag(settings, graph, topic) == 0
        except (OffsetsExpired, TopicRewound):
            # A run would refuse this topic, so it is not drained. That must not stop the rest of the graph.
            return False

    with closing(GraphVersions(settings)) as versions, closing(open_lease_store(settings)) as leases:
        return apply.apply_graph(
            graph,
            settings,
            leases,
            versions,
            applied_by=applied_by or user_name(),
            is_drained=is_drained,
            force=force,
            base_version=base_version,
            file=file,
        )


def read_graph(graph: GraphSource) -> Graph:
    """Return a graph as it is, or load it from its file.

    :raises GraphInvalid: the file cannot be read or breaks rules.
    """
    return graph if isinstance(graph, Graph) else load_graph(graph)

"""Load, validate, apply and delete graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestream.graph import load
from pipestream.graph.load import GraphCheck
from pipestream.graph.model import Graph
from pipestream.graph.module_rules import AskModules
from pipestream.user import user_name

if TYPE_CHECKING:
    from pipestream.deployment.apply import Applied
    from pipestream.deployment.delete import Deletable, Deleted
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


def delete_graph(
    graph_id: str,
    *,
    deleted_by: str = "",
    leave_behind: bool = False,
    delete_file: bool = False,
    base_version: int | None = None,
    settings: Settings | None = None,
) -> Deleted:
    """Delete a graph: no version of it is active any more. Stop it first.

    Its topics, their records, its ledger, its documents and all its versions stay, so it can be applied again, and then
    continues where it stopped.

    :param deleted_by: who deletes it, for the history of versions; the user of this process unless given.
    :param leave_behind: delete it although records or dead letters wait. They stay in their topics.
    :param delete_file: also delete its file in ``graphs_folder``, from which Airflow makes the DAG.
    :param base_version: the version that must be active now. Without it, whichever is.
    :raises GraphInUse: it is started, somebody holds a lease, it has a file, or something waits; nothing has changed.
    :raises VersionMissing: it has no active version.
    :raises VersionConflict: another version is the active one.
    :raises TransientError: a server did not answer; delete it again.
    """
    from pipestream.deployment import delete

    with _deletion(graph_id, settings, leave_behind=leave_behind, delete_file=delete_file) as parts:
        by = deleted_by or user_name()
        return delete.delete_graph(graph_id, **parts, deleted_by=by, base_version=base_version)


def preview_deletion(
    graph_id: str, *, leave_behind: bool = False, delete_file: bool = False, settings: Settings | None = None
) -> Deletable:
    """Return what stands against deleting a graph, and what would be left of it. Changes nothing.

    :raises VersionMissing: it has no active version.
    """
    from pipestream.deployment.delete import check_deletion

    with _deletion(graph_id, settings, leave_behind=leave_behind, delete_file=delete_file) as parts:
        return check_deletion(graph_id, **parts)


@contextmanager
def _deletion(graph_id: str, settings: Settings | None, **choices: bool) -> Iterator[dict[str, Any]]:
    """Open what a deletion needs, and return it with the choices."""
    from pipestream.deployment.delete import Remains
    from pipestream.deployment.versions import GraphVersions
    from pipestream.leases import open_lease_store
    from pipestream.settings import load_settings
    from pipestream.topics.required import leased_topics
    from pipestream.views.letters import OpenLetters
    from pipestream.views.pipelines import Pipelines
    from pipestream.views.standing import StandingView

    settings = settings or load_settings()
    with closing(GraphVersions(settings)) as versions, closing(open_lease_store(settings)) as leases:

        def find_remains(graph: Graph) -> Remains:
            drained = [(graph.graph_id, topic) for topic in leased_topics(graph)]
            waiting = {each.topic: each.lag for each in StandingView(settings, leases).find_topics(drained) if each.lag}
            letters = OpenLetters(settings).count([graph])
            return Remains(waiting, sum(count for (of, _), count in letters.items() if of in ("", graph_id)))

        known = Pipelines(settings, versions).read().get(graph_id)
        yield {
            "settings": settings,
            "lease_store": leases,
            "versions": versions,
            "find_remains": find_remains,
            "file": known.path if known else None,
            **choices,
        }


def read_graph(graph: GraphSource) -> Graph:
    """Return a graph as it is, or load it from its file.

    :raises GraphInvalid: the file cannot be read or breaks rules.
    """
    return graph if isinstance(graph, Graph) else load_graph(graph)

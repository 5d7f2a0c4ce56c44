"""Delete a graph: it has no active version any more. What it left in Kafka, in the ledger and in storage stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipestream.deployment.apply import find_other_graphs
from pipestream.deployment.versions import VersionMissing
from pipestream.errors import GraphInUse
from pipestream.leases.names import lease_name
from pipestream.topics.required import Purpose, leased_topics, required_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pipestream.deployment.versions import GraphVersions
    from pipestream.graph.model import Graph
    from pipestream.leases.store import Assignment, LeaseStore
    from pipestream.settings import Settings

_SHOWN = 5
"""Topics or holders that a reason names. The rest are counted."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What a graph has not processed, and what nobody has decided on."""

    waiting: Mapping[str, int] = field(default_factory=dict)
    """Offsets that are not drained, by topic; topics without any are left out."""
    dead_letters: int = 0
    """Dead letters that wait for somebody."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What deleting a graph did, and what it left."""

    graph_id: str
    version: int
    """The version that was the active one. It and all others are kept."""
    topics: tuple[str, ...]
    """The graph's topics. They stay, with what they hold."""
    waiting: Mapping[str, int]
    """Offsets that stay undrained, by topic."""
    dead_letters: int
    """Dead letters that nobody has decided on."""
    file: str
    """The graph's file, if it was deleted too; else empty."""


@dataclass(frozen=True, slots=True)
class Deletable:
    """What stands against deleting a graph now."""

    reasons: tuple[str, ...]
    """Why it is refused; empty: it is not."""
    remains: Remains


def check_deletion(
    graph_id: str,
    settings: Settings,
    lease_store: LeaseStore,
    versions: GraphVersions,
    *,
    find_remains: Callable[[Graph], Remains],
    file: Path | None,
    delete_file: bool = False,
    leave_behind: bool = False,
) -> Deletable:
    """Return whether a graph can be deleted now, and change nothing. The parameters are those of ``delete_graph``.

    :raises VersionMissing: it has no active version.
    """
    graph = _find_active(graph_id, versions)
    shared = {topic for other in find_other_graphs(graph, versions) for topic in leased_topics(other)}
    # A topic that another graph drains too cannot be stopped for this one alone.
    own = [topic for topic in leased_topics(graph) if topic not in shared]
    # Without leases nobody can say that a topic is stopped: the store forgets it with its process.
    started = [topic for topic in own if settings.leases != "none" and lease_store.desired(topic).started]
    held = [each for each in lease_store.assignments() if each.holder and each.lane.partition("@")[0] == graph_id]
    remains = find_remains(graph)
    reasons = [
        *_refuse_running(started, held),
        *([] if file is None or delete_file else [_refuse_file(file)]),
        *([] if leave_behind else _refuse_remains(remains)),
    ]
    return Deletable(tuple(reasons), remains)


def delete_graph(
    graph_id: str,
    settings: Settings,
    lease_store: LeaseStore,
    versions: GraphVersions,
    *,
    deleted_by: str,
    find_remains: Callable[[Graph], Remains],
    file: Path | None,
    delete_file: bool = False,
    leave_behind: bool = False,
    base_version: int | None = None,
) -> Deleted:
    """Delete a graph.

    1. Check its base version, and that it is not in use. Nothing has changed if this fails.
    2. Delete its file, from which Airflow makes its DAG. After a crash from here on, delete it again.
    3. Leave it without an active version: engines, repositories and streams drop it within seconds.
    4. Note its topics: if the graph is applied again, those that it no longer needs are retired as after an edit.
    5. Forget its leases. Topics stay as they are, stopped, so that a DAG of a file elsewhere drains nothing.
    6. Look again at what is left, because documents may have come in until step 3.

    :param find_remains: what the graph has not processed.
    :param file: the graph's file, if there is one.
    :param delete_file: delete the file too; otherwise a graph with a file is refused.
    :param leave_behind: delete the graph although records or dead letters wait. They stay in their topics.
    :param base_version: the version that must be active now. Without it, whichever is.
    :raises GraphInUse: it is started, somebody holds a lease, it has a file, or something waits.
    :raises VersionMissing: it has no active version.
    :raises VersionConflict: another version is active.
    """
    graph = _find_active(graph_id, versions)
    versions.check_base(graph_id, base_version)
    checked = check_deletion(
        graph_id,
        settings,
        lease_store,
        versions,
        find_remains=find_remains,
        file=file,
        delete_file=delete_file,
        leave_behind=leave_behind,
    )
    if checked.reasons:
        raise GraphInUse(graph_id, checked.reasons)
    deleted_file = _delete_file(graph_id, file)
    version = versions.delete(graph_id, deleted_by=deleted_by, base_version=base_version)
    topics = tuple(spec.name for spec in required_topics(graph, settings) if spec.purpose is not Purpose.BRIDGE_OUT)
    versions.note_leftovers(graph_id, [*versions.leftovers(graph_id), *topics])
    lease_store.unregister([lease_name(topic, graph_id) for topic in leased_topics(graph)])
    remains = find_remains(graph)
    return Deleted(graph_id, version, topics, remains.waiting, remains.dead_letters, deleted_file)


def _find_active(graph_id: str, versions: GraphVersions) -> Graph:
    graph = versions.active(graph_id)
    if graph is None:
        raise VersionMissing(graph_id, "that is active")
    return graph


def _refuse_running(started: Sequence[str], held: Sequence[Assignment]) -> list[str]:
    reasons = []
    if started:
        reasons.append(
            f"{_name_some(started)} {'is' if len(started) == 1 else 'are'} started; stop the pipeline first, on its "
            f"page State or with `pipestream leases set --graph FILE --stopped`"
        )
    if held:
        holders = _name_some([f"{each.topic} (by {each.holder})" for each in held])
        reasons.append(f"leases are held on {holders}; wait until the runs have ended")
    return reasons


def _refuse_file(file: Path) -> str:
    return (
        f"Airflow makes its DAG from {file.name}; delete that file first, or with the graph (--delete-file, "
        f"delete_file=true)"
    )


def _refuse_remains(remains: Remains) -> list[str]:
    found = []
    if remains.waiting:
        topics = _name_some([f"{topic} ({count})" for topic, count in sorted(remains.waiting.items())])
        found.append(f"records wait in {topics}")
    if remains.dead_letters:
        found.append(f"{remains.dead_letters} dead letters wait for a decision")
    if not found:
        return []
    ways_out = "drain, replay or purge them first, or leave them in their topics (--leave-behind, leave_behind=true)"
    return [f"{' and '.join(found)}; {ways_out}"]


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _delete_file(graph_id: str, file: Path | None) -> str:
    """Delete a graph's file, and return its name.

    :raises GraphInUse: it cannot be deleted.
    """
    if file is None:
        return ""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise GraphInUse(graph_id, [f"its file {file.name} cannot be deleted: {error.strerror}"]) from error
    return file.name

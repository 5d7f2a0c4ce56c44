"""Apply a graph: create its topics, register them for leases, and keep it as a version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipestream.deployment.topic_changes import TopicChanges, narrow_dead_letters, plan_topics
from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.flow import slots_of
from pipestream.graph.folder_rules import check_together
from pipestream.graph.load import check_graph, check_graph_file
from pipestream.graph.model import Graph, GraphMode
from pipestream.graph.module_rules import AskModules
from pipestream.leases.names import lease_name
from pipestream.leases.store import DesiredState
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import (
    DEAD_LETTER_BYTES,
    DEAD_LETTER_HEADERS_BYTES,
    leased_topics,
    required_topics,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pipestream.deployment.versions import GraphVersion, GraphVersions
    from pipestream.leases.store import LeaseStore
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class Applied:
    """What applying a graph did."""

    version: GraphVersion
    created: tuple[str, ...]
    kept: tuple[str, ...]
    grown: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Topics the graph no longer needs that stay because they hold unread records."""
    warnings: tuple[str, ...] = ()


def preview_graph(
    graph: Graph,
    settings: Settings,
    versions: GraphVersions,
    *,
    admin: TopicAdmin | None = None,
    file: Path | None = None,
) -> TopicChanges:
    """Return what applying a graph would change, and change nothing.

    :param file: where the graph comes from, so that problems name their lines.
    :raises GraphInvalid: the graph breaks a rule, by itself or together with the other active graphs; or it has another
        cluster than before, and has drained topics that it still drains.
    """
    others = find_other_graphs(graph, versions)
    warnings = _refuse_invalid(graph, others, settings, file)
    admin = admin or TopicAdmin(settings)
    existing = admin.existing()
    _refuse_other_cluster(graph, versions, settings, existing)
    configs = admin.configs(spec.name for spec in required_topics(graph, settings) if spec.name in existing)
    changes = plan_topics(
        graph,
        settings,
        existing=existing,
        retention_ms={name: config.retention_ms for name, config in configs.items()},
        max_message_bytes={name: config.max_message_bytes for name, config in configs.items()},
        previous=versions.active(graph.graph_id),
        leftovers=versions.leftovers(graph.graph_id),
        others=others,
    )
    return replace(changes, warnings=(*warnings, *changes.warnings))


def apply_graph(
    graph: Graph,
    settings: Settings,
    lease_store: LeaseStore,
    versions: GraphVersions,
    *,
    applied_by: str,
    is_drained: Callable[[str], bool] | None = None,
    force: bool = False,
    base_version: int | None = None,
    admin: TopicAdmin | None = None,
    file: Path | None = None,
) -> Applied:
    """Make a graph the active one.

    1. Check it, alone and together with the other active graphs, and its base version. Nothing has changed if this
       fails.
    2. Create and grow topics. After a crash from here on, apply it again.
    3. Register the drained topics in the lease store, a new one with as many slots as the graph says.
    4. Record which topics are no longer needed, and save the version.
    5. Delete those topics that hold no unread record.

    :param is_drained: whether every record of a topic has been drained. Without it only topics that hold
        no record at all are deleted.
    :param force: delete topics even if they hold unread records, which are then lost.
    :param base_version: the version that must be active now; 0: none may be. Without it, whichever is.
    :param file: where the graph comes from, so that problems name their lines.
    :raises GraphInvalid: the graph breaks a rule.
    :raises VersionConflict: another version is active. If that happened just now, topics may have been created.
    """
    versions.check_base(graph.graph_id, base_version)
    admin = admin or TopicAdmin(settings)
    changes = preview_graph(graph, settings, versions, admin=admin, file=file)
    before = versions.active(graph.graph_id)
    left = set(leased_topics(before)) - set(leased_topics(graph)) if before else set()

    created = admin.create(changes.create)
    admin.grow(changes.grow)
    admin.set_retention_ms(changes.retention_ms)
    admin.set_max_message_bytes(_narrow_dead_letters(graph, settings, changes, admin))
    _register(graph, lease_store)
    versions.note_leftovers(graph.graph_id, changes.retire)
    version = versions.save(graph, applied_by=applied_by, base_version=base_version)

    retired = tuple(topic for topic in changes.retire if force or _holds_nothing_unread(topic, admin, is_drained))
    unread = tuple(topic for topic in changes.retire if topic not in retired)
    lease_store.unregister(sorted(set(changes.retire) & set(lease_store.topics()) - set(unread)))
    # Another graph may still drain a datasource that this one has left.
    lease_store.unregister([lease_name(topic, graph.graph_id) for topic in left - set(unread)])
    admin.delete(retired)
    versions.note_leftovers(graph.graph_id, unread)
    return Applied(
        version=version,
        created=tuple(created),
        kept=tuple(spec.name for spec in changes.keep),
        grown=tuple(changes.grow),
        retired=retired,
        unread=unread,
        warnings=changes.warnings,
    )


def _register(graph: Graph, lease_store: LeaseStore) -> None:
    """Register the drained topics and the graph's lane on each. Registered topics keep what the operator has set."""
    topics = leased_topics(graph)
    for topic in sorted(set(topics) - set(lease_store.topics())):
        # One call registers it with its slots: a crash in between must not leave it with the wrong number.
        if (slots := slots_of(graph, topic)) > 1:
            lease_store.set_desired(topic, DesiredState(replicas=slots))
    lease_store.register([*topics, *(lease_name(topic, graph.graph_id) for topic in topics)])


def _refuse_invalid(graph: Graph, others: list[Graph], settings: Settings, file: Path | None) -> list[str]:
    """Return the warnings about a graph that breaks no rule."""
    name = f"graph {graph.graph_id}"
    if graph.mode is GraphMode.DESIGN:
        hint = "set mode: production when it is ready"
        raise GraphInvalid([Problem(name, None, "mode", "a graph in design is not applied", hint)])
    ask = None if settings.module_check == "off" else AskModules(settings.module_check == "require", settings)
    check = None if file is None else check_graph_file(file, look_up=True, ask=ask)
    if check is None or check.graph not in (None, graph):  # the file was changed meanwhile, and not this graph
        check = check_graph(graph, name, look_up=True, ask=ask)
    problems = [*check.problems]
    if not problems:
        active = [(f"graph {other.graph_id}", other) for other in others]
        problems = check_together([*active, (name, graph)])
    if problems:
        raise GraphInvalid(problems)
    return [str(warning) for warning in check.warnings]


def _refuse_other_cluster(
    graph: Graph, versions: GraphVersions, settings: Settings, existing: Mapping[str, int]
) -> None:
    """Refuse another cluster for a graph that has drained something.

    The names of the consumer group and of the transactional ids contain the cluster; those of the ledger's heads and of
    the leases only contain the graph's id. Under another cluster, a run would not find the offset that an earlier run
    committed and could not record, and would not fence that run.
    """
    before = versions.active(graph.graph_id)
    if before is None and (history := versions.history(graph.graph_id)):
        before = versions.get(graph.graph_id, history[0].version)  # deleted; applied again, it continues
    if before is None or before.cluster_id == graph.cluster_id:
        return
    from pipestream.ledger import Ledger  # it takes long to import, and is seldom needed here

    ledger = Ledger(settings)
    for topic in sorted(set(leased_topics(before)) & set(leased_topics(graph))):
        if ledger.heads(graph.graph_id, topic, range(existing.get(topic, 0))):
            message = (
                f"it was {before.cluster_id}, and graph {graph.graph_id} has drained {topic} there: its offsets in "
                f"Kafka belong to that cluster, so records could be drained twice"
            )
            hint = f"keep cluster: {before.cluster_id}, or give the graph another id; it then starts anew"
            raise GraphInvalid([Problem(f"graph {graph.graph_id}", None, "cluster", message, hint)])


def _narrow_dead_letters(
    graph: Graph, settings: Settings, changes: TopicChanges, admin: TopicAdmin
) -> Mapping[str, int]:
    """Return the planned limits, or ask the broker about all topics if its default for new topics is too large."""
    new = [spec.name for spec in changes.create if spec.max_message_bytes is None]
    # All new topics have the same limit, and asking about thousands takes seconds.
    if not new or admin.configs(new[:1])[new[0]].max_message_bytes + DEAD_LETTER_HEADERS_BYTES <= DEAD_LETTER_BYTES:
        return changes.max_message_bytes
    specs = required_topics(graph, settings)
    configs = admin.configs(spec.name for spec in specs)
    return narrow_dead_letters(specs, {name: config.max_message_bytes for name, config in configs.items()})


def find_other_graphs(graph: Graph, versions: GraphVersions) -> list[Graph]:
    """Return the active versions of all other graphs."""
    others = (versions.active(graph_id) for graph_id in versions.graph_ids() if graph_id != graph.graph_id)
    return [other for other in others if other is not None]


def _holds_nothing_unread(topic: str, admin: TopicAdmin, is_drained: Callable[[str], bool] | None) -> bool:
    partitions = admin.identify(topic).partitions
    marks = admin.watermarks(topic, partitions)
    ends = admin.written_ends(topic, partitions)
    # Open transactions may still be committed. A drain ends before them, so it does not see them.
    if any(marks[partition].high < ends[partition] for partition in partitions):
        return False
    is_empty = all(marks[partition].low == ends[partition] for partition in partitions)
    return is_empty or (is_drained is not None and is_drained(topic))

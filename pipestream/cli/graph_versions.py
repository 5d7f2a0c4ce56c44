"""``pipestream graph apply``, ``mode``, ``history``, ``diff``, ``rollback`` and ``delete``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.leases import ModeChoice, show_changed
from pipestream.cli.options import GraphArgument, JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, note, say, show_table

if TYPE_CHECKING:
    from pipestream.deployment.apply import Applied
    from pipestream.deployment.versions import GraphVersions
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

ForceOption = Annotated[
    bool, typer.Option("--force", help="Delete topics that are no longer needed even if they hold unread records.")
]


def add_to(group: typer.Typer) -> None:
    group.command(
        epilog=examples(
            "pipestream graph apply dags/graphs/sample.yaml",
            "pipestream graph apply dags/graphs/sample.yaml --dry-run --json",
        )
    )(apply)
    group.command(
        name="mode",
        epilog=examples(
            "pipestream graph mode sample streaming", "pipestream graph mode dags/graphs/sample.yaml batch"
        ),
    )(set_mode)
    group.command(epilog=examples("pipestream graph history sample"))(history)
    group.command(
        epilog=examples(
            "pipestream graph diff dags/graphs/sample.yaml",
            "pipestream graph diff sample@1 sample@2",
            "pipestream graph diff sample@1 dags/graphs/sample.yaml",
        )
    )(diff)
    group.command(epilog=examples("pipestream graph rollback sample 3 --file dags/graphs/sample.yaml"))(rollback)
    group.command(
        epilog=examples(
            "pipestream graph delete sample", "pipestream graph delete sample --delete-file --leave-behind --yes"
        )
    )(delete)


def apply(
    file: GraphArgument,
    force: ForceOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a graph the active one: create its topics, register them for leases, keep it as a version.

    Topics that no graph needs any more are deleted, unless they hold unread records.
    """
    from pipestream import apply_graph
    from pipestream.deployment.apply import preview_graph
    from pipestream.graph.load import load_graph

    settings = read_settings()
    graph = load_graph(file, look_up=True)
    if not dry_run:
        applied = apply_graph(file, force=force, settings=settings)
        emit_json(applied) if json else _show_applied(applied)
        return
    with _versions(settings) as versions:
        changes = preview_graph(graph, settings, versions, file=file)
    if json:
        emit_json(changes)
        return
    _show_topics(
        create=[spec.name for spec in changes.create],
        keep=[spec.name for spec in changes.keep],
        grow=list(changes.grow),
        retire=list(changes.retire),
    )
    for warning in changes.warnings:
        note(f"warning: {warning}", style="yellow")


def set_mode(
    graph: Annotated[str, typer.Argument(help="A graph file, or the id of an applied graph.")],
    mode: Annotated[ModeChoice, typer.Argument(help="Who drains its topics: batch runs, or streams.")],
    json: JsonOption = False,
) -> None:
    """Move every topic of a graph to batch or streaming, while documents flow.

    A batch run skips what streams. `pipestream leases set TOPIC --mode MODE` moves one topic.
    """
    from pipestream import set_graph_mode

    settings = read_settings()
    with _versions(settings) as versions:
        found = _find_graph(graph, versions)
    show_changed(set_graph_mode(found, mode, settings=settings), json=json)


def history(graph_id: Annotated[str, typer.Argument(help="The graph's id.")], json: JsonOption = False) -> None:
    """List the versions of a graph, newest first, and which one is active."""
    settings = read_settings()
    with _versions(settings) as versions:
        found = versions.history(graph_id)
        known = [] if found else versions.graph_ids()
        deletion = versions.deletion(graph_id)
    if json:
        emit_json(found)
    elif not found:
        say(f"graph {graph_id} was never applied; applied were: {', '.join(known) or 'none'}")
    else:
        show_table(
            ["version", "hash", "applied (UTC)", "by", "active since (UTC)"],
            [[v.version, v.hash[:12], v.applied_at, v.applied_by, v.active_since or ""] for v in found],
            numbers=["version"],
        )
        if deletion:
            at = f"{deletion.deleted_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
            note(f"{deletion.deleted_by} deleted the graph at {at} UTC; `graph rollback` applies a version again")


def diff(
    old: Annotated[str, typer.Argument(help="A graph file, or ID@VERSION; ID alone is the active version.")],
    new: Annotated[
        str | None, typer.Argument(help="The same. Without it, the active version is compared with the file OLD.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what differs between two graphs, part by part."""
    from pipestream.graph.diff import diff_graphs

    with _versions(read_settings()) as versions:
        second = _find_graph(new or old, versions)
        first = _find_graph(old if new else second.graph_id, versions)
    changes = diff_graphs(first, second)
    if json:
        emit_json(changes)
        return
    for change in changes:
        say(str(change), style={"+": "green", "-": "red", "~": "yellow"}[change.kind.value])
    if not changes:
        say("no difference")


def rollback(
    graph_id: Annotated[str, typer.Argument(help="The graph's id.")],
    version: Annotated[int, typer.Argument(min=1, help="The version's number, from `graph history`.")],
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the version to this graph file too, which DAGs read.")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Apply an older version of a graph again, topics included."""
    from pipestream import apply_graph

    settings = read_settings()
    with _versions(settings) as versions:
        graph = versions.get(graph_id, version)
    applied = apply_graph(graph, force=force, settings=settings)
    if file is not None:
        _write_file(file, graph)
    if json:
        emit_json(applied)
        return
    _show_applied(applied)
    if file is None:
        note("the graph file that DAGs read is unchanged; --file FILE writes this version to it", style="yellow")


def _write_file(file: Path, graph: Graph) -> None:
    """Write a graph that has been applied to a file, from which DAGs read it at any time.

    :raises RequestInvalid: it cannot be written.
    """
    from pipestream.errors import RequestInvalid
    from pipestream.graph.write import to_yaml
    from pipestream.views.files import write_graph_file

    try:
        write_graph_file(file.parent, file, graph.graph_id, to_yaml(graph).encode())
    except OSError as error:
        raise RequestInvalid(
            f"the version is applied, but {file} cannot be written ({error.strerror}), so DAGs have the graph as "
            f"before; repeat the command with a file that can be written"
        ) from error


def delete(
    graph_id: Annotated[str, typer.Argument(help="The graph's id.")],
    delete_file: Annotated[
        bool, typer.Option("--delete-file", help="Also delete its file, from which Airflow makes the DAG.")
    ] = False,
    leave_behind: Annotated[
        bool, typer.Option("--leave-behind", help="Delete it although records or dead letters wait; they stay.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it; without it, only show what would be left.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete a graph that is stopped. Without --yes, only show what stands against it and what would be left.

    Topics and what they hold, the ledger, documents and all versions stay. If the graph is applied again, it continues
    where it stopped.
    """
    from pipestream import delete_graph
    from pipestream.api.graphs import preview_deletion

    settings = read_settings()
    if not yes:
        found = preview_deletion(graph_id, leave_behind=leave_behind, delete_file=delete_file, settings=settings)
        if json:
            emit_json(found)
            return
        _show_remains(found.remains.waiting, found.remains.dead_letters)
        for reason in found.reasons:
            note(f"refused: {reason}", style="yellow")
        say("nothing was deleted" if found.reasons else "nothing was deleted; add --yes to do it")
        return
    deleted = delete_graph(graph_id, leave_behind=leave_behind, delete_file=delete_file, settings=settings)
    if json:
        emit_json(deleted)
        return
    _show_remains(deleted.waiting, deleted.dead_letters)
    say(f"graph {graph_id} is deleted; its {len(deleted.topics)} topics and its versions stay", style="green")


def _show_remains(waiting: Mapping[str, int], dead_letters: int) -> None:
    if waiting:
        show_table(["topic", "waiting"], [list(each) for each in waiting.items()], numbers=["waiting"], fold=["topic"])
    say(f"{dead_letters} dead letters wait" if dead_letters else "no dead letters wait")


@contextmanager
def _versions(settings: Settings) -> Iterator[GraphVersions]:
    from pipestream.deployment.versions import GraphVersions

    with closing(GraphVersions(settings)) as versions:
        yield versions


def _find_graph(text: str, versions: GraphVersions) -> Graph:
    from pipestream.deployment.versions import VersionMissing
    from pipestream.graph.folder import SUFFIXES
    from pipestream.graph.load import load_graph

    if Path(text).suffix in SUFFIXES:
        return load_graph(Path(text))
    graph_id, _, version = text.partition("@")
    if version:
        return versions.get(graph_id, int(version) if version.isdecimal() and len(version) < 10 else version)
    active = versions.active(graph_id)
    if active is None:
        raise VersionMissing(graph_id, "that is active")
    return active


def _show_applied(applied: Applied) -> None:
    version = applied.version
    _show_topics(create=applied.created, keep=applied.kept, grow=applied.grown, retire=applied.retired)
    for topic in applied.unread:
        note(f"{topic} is no longer needed and stays: it holds unread records (--force deletes it)", style="yellow")
    for warning in applied.warnings:
        note(f"warning: {warning}", style="yellow")
    say(f"graph {version.graph_id} is at version {version.version} ({version.hash[:12]})", style="green")


def _show_topics(**groups: list[str] | tuple[str, ...]) -> None:
    rows = [(action, topic) for action, topics in groups.items() for topic in topics]
    show_table(["topic", "action"], [[topic, action] for action, topic in rows], fold=["topic"])

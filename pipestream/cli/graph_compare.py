"""``pipestream graph compare``: what a changed graph would make of documents that were drained before."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import GraphArgument, JsonOption, SinceOption, UntilOption, examples, read_settings
from pipestream.cli.output import emit_json, note, say, show_table
from pipestream.wording import counted

if TYPE_CHECKING:
    from pipestream.comparison.compare import Comparison
    from pipestream.comparison.differences import ShownLeaf


def add_to(group: typer.Typer) -> None:
    group.command(
        epilog=examples(
            "pipestream graph compare dags/graphs/sample.yaml",
            "pipestream graph compare changed.yaml --documents 1000 --since PT6H --json",
        )
    )(compare)


def compare(
    file: GraphArgument,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Start from records of this topic, not of the intake topics."),
    ] = None,
    documents: Annotated[
        int, typer.Option("--documents", "-n", min=1, max=10_000, help="The most records to compare, the latest first.")
    ] = 100,
    since: SinceOption = None,
    until: UntilOption = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", min=1, help="Stop after so many seconds, and show what is compared by then."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a changed graph on documents that were drained before, and list those that would come out differently.

    Compares with the version in use. Nothing is published, stored or committed. Modules on the way are really called,
    those of the changed graph included; modules of ends and remote engines are not.
    """
    from pipestream.comparison.compare import CompareRequest, compare_graphs
    from pipestream.deployment.versions import GraphVersions, VersionMissing
    from pipestream.graph.load import load_graph

    settings = read_settings()
    changed = load_graph(file, look_up=True)
    with closing(GraphVersions(settings)) as versions:
        active = versions.active(changed.graph_id)
    if active is None:
        raise VersionMissing(changed.graph_id, "that is active")
    request = CompareRequest(tuple(topics or ()), documents, since, until, timeout_s)
    found = compare_graphs(active, changed, settings, request)
    if json:
        emit_json(found)
    else:
        _show(found)


def _show(found: Comparison) -> None:
    say(f"{counted(found.records, 'record')} compared, {found.different} come out differently ({found.seconds:.1f} s)")
    for kind, count in sorted(found.kinds.items()):
        say(f"  {kind}: {count}")
    if found.failed_before != found.failed_after:
        say(f"  failed documents: {found.failed_before} → {found.failed_after}")
    if found.edges:
        show_table(
            ["edge", "before", "after"],
            [[each.edge, each.before, each.after] for each in found.edges],
            numbers=["before", "after"],
        )
    for condition in found.conditions:
        say(
            f"condition of {condition.edge}: {condition.reached} documents came to it, true for "
            f"{condition.true_before} before and {condition.true_after} after"
        )
    for each in found.documents:
        say(f"{each.doc_id or '(no id)'} at {each.topic}[{each.partition}] {each.offset}", style="bold")
        for sign, leaves in (("-", each.difference.before), ("+", each.difference.after)):
            if "route" in each.difference.kinds or "failure" in each.difference.kinds:
                for leaf in leaves:
                    say(f"  {sign} {_leaf(leaf)}", style="red" if sign == "-" else "green")
        for change in each.difference.fields:
            say(f"  {change.field}: {change.before!r} → {change.after!r}")
        if each.difference.more_fields:
            say("  …and more fields")
    for text in found.notes:
        note(f"note: {text}")


def _leaf(leaf: ShownLeaf) -> str:
    way = " → ".join([*leaf.edges, f"{leaf.ending} at {leaf.node}" if leaf.node else leaf.ending])
    return f"{way}: {leaf.error}" if leaf.error else way

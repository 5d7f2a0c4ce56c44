"""``pipestream leases``: who holds which slot of which topic, and what the operator wants."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pipestream.cli.options import JsonOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, say, show_table
from pipestream.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.leases import DesiredState
    from pipestream.settings import Settings


class ModeChoice(StrEnum):
    """The modes of a topic, for the command line: the store's own are imported late."""

    BATCH = "batch"
    STREAMING = "streaming"


class _ListUnlessTold(TyperGroup):
    """Treats ``leases`` and ``leases TOPIC`` as ``leases list …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(cls=_ListUnlessTold)
    group.command(
        name="list",
        epilog=examples("pipestream leases", "pipestream leases intake.sample-files --json"),
    )(list_leases)
    group.command(
        name="set",
        epilog=examples(
            "pipestream leases set intake.sample-files --stopped",
            "pipestream leases set pipestream.main.enrich --started --replicas 2",
            "pipestream leases set pipestream.main.enrich --mode streaming",
            "pipestream leases set --graph dags/graphs/sample.yaml --stopped",
        ),
    )(set_desired)
    app.command(name="assignments", epilog=examples("pipestream assignments intake.sample-files"))(list_leases)
    app.add_typer(group, name="leases", help="Show who drains what; start, stop and scale topics, and set their mode.")


def list_leases(
    topic: Annotated[str | None, typer.Argument(help="Only this topic.")] = None, json: JsonOption = False
) -> None:
    """Show every slot of every registered topic: its graph, its holder, until when, and the fencing token."""
    from pipestream.leases import open_lease_store
    from pipestream.views.leases import NO_LEASES, slot_row

    settings = read_settings()
    has_leases = settings.leases != "none"
    with closing(open_lease_store(settings)) as store:
        if not has_leases:
            store.register(_names_of_folder(settings))  # this store has forgotten what was applied
        rows = [slot_row(store, assignment) for assignment in store.assignments(topic)]
    if json:
        emit_json({"store": settings.leases, "replicas_apply": has_leases, "slots": rows})
        return
    if not has_leases:
        say(NO_LEASES)
    if not rows:
        say(f"no topics are registered in the {settings.leases} lease store; `pipestream graph apply` registers them")
    else:
        show_table(
            ["topic", "graph", "wanted", "slot", "holder", "until (UTC)", "token"],
            [
                [
                    row["topic"],
                    f"{row['graph'] or '-'}{' (backfill ' + row['backfill'] + ')' if row['backfill'] else ''}",
                    _wanted(row, has_leases=has_leases),
                    row["slot"],
                    row["holder"] or "free",
                    row["until"],
                    str(row["token"]),  # whole, as in the ledger and in logs, where it is looked for
                ]
                for row in rows
            ],
            numbers=["slot", "token"],
            fold=["topic", "graph", "holder"],
        )


def _wanted(row: Mapping[str, Any], *, has_leases: bool) -> str:
    mode = ", streaming" if row["mode"] == ModeChoice.STREAMING else ""
    return f"{'started' if row['started'] else 'stopped'} x {row['replicas'] if has_leases else '-'}{mode}"


def set_desired(
    topic: Annotated[str | None, typer.Argument(help="The topic.")] = None,
    graph: Annotated[
        Path | None,
        typer.Option("--graph", "-g", metavar="FILE", help="All topics of this graph instead of one topic."),
    ] = None,
    started: Annotated[
        bool | None,
        typer.Option(
            "--started/--stopped", help="Whether runs drain the topic; unchanged unless given.", show_default=False
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Slots: how many drains may share the topic.")
    ] = None,
    mode: Annotated[
        ModeChoice | None,
        typer.Option(
            help="Whether batch runs drain the topic, or a streaming drain or sidecar does.", show_default=False
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Start, stop or scale a topic, or set its mode; or all topics of a graph.

    Runs follow it from their next start or slot on, streams from their next chunk on.
    """
    from pipestream.api.modes import change_topics

    if started is None and replicas is None and mode is None:
        raise typer.BadParameter("say what to change: --started, --stopped, --replicas N or --mode MODE")
    if (topic is None) == (graph is None):
        raise typer.BadParameter("name one topic, or a graph with --graph")
    topics = [topic] if topic else _topics_of(graph)
    changed = change_topics(topics, started=started, replicas=replicas, mode=mode, settings=read_settings())
    show_changed(changed, json=json, alone=topic is not None)


def show_changed(changed: Mapping[str, DesiredState], *, json: bool, alone: bool = False) -> None:
    """Show what is now wanted of topics.

    :param alone: in JSON, as the topic's own object instead of a list.
    """
    rows = [
        {"topic": topic, "started": state.started, "replicas": state.replicas, "mode": state.mode.value}
        for topic, state in changed.items()
    ]
    if json:
        emit_json(rows[0] if alone else rows)
        return
    for topic, state in changed.items():
        mode = f", {state.mode}" if state.mode.value == ModeChoice.STREAMING.value else ""
        say(f"{topic}: {'started' if state.started else 'stopped'}, {counted(state.replicas, 'replica')}{mode}")


def _topics_of(graph: Path | None) -> list[str]:
    from pipestream.graph.load import load_graph
    from pipestream.topics.required import leased_topics

    assert graph is not None
    return leased_topics(load_graph(graph))


def _names_of_folder(settings: Settings) -> list[str]:
    from pipestream.leases.names import lease_name
    from pipestream.topics.required import leased_topics

    graphs = read_graphs(settings, None)
    return sorted({lease_name(topic, graph.graph_id) for graph in graphs for topic in leased_topics(graph)})

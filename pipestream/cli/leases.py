"""``pipestream leases``: who holds which slot of which topic, and what the operator wants."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pipestream.cli.options import JsonOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from pipestream.settings import Settings


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
            "pipestream leases set --graph dags/graphs/sample.yaml --stopped",
        ),
    )(set_desired)
    app.command(name="assignments", epilog=examples("pipestream assignments intake.sample-files"))(list_leases)
    app.add_typer(group, name="leases", help="Show who drains what; start, stop and scale topics.")


def list_leases(
    topic: Annotated[str | None, typer.Argument(help="Only this topic.")] = None, json: JsonOption = False
) -> None:
    """Show every slot of every registered topic: its graph, its holder, until when, and the fencing token."""
    from pipestream.leases import open_lease_store
    from pipestream.views.leases import slot_row

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
        say(
            "No leases (PIPESTREAM_LEASES is none): replicas do not apply. Every run drains all partitions of its "
            "topic, and as many drains run as are started; each record still comes out exactly once."
        )
    if not rows:
        say(f"no topics are registered in the {settings.leases} lease store; `pipestream graph apply` registers them")
    else:
        show_table(
            ["topic", "graph", "wanted", "slot", "holder", "until (UTC)", "token"],
            [
                [
                    row["topic"],
                    f"{row['graph'] or '-'}{' (backfill ' + row['backfill'] + ')' if row['backfill'] else ''}",
                    f"{'started' if row['started'] else 'stopped'} x {row['replicas'] if has_leases else '-'}",
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
    json: JsonOption = False,
) -> None:
    """Start, stop or scale a topic, or all topics of a graph. Runs follow it from their next start or slot on."""
    from pipestream.errors import RequestInvalid, SettingsInvalid
    from pipestream.leases import open_lease_store

    if started is None and replicas is None:
        raise typer.BadParameter("say what to change: --started, --stopped or --replicas N")
    if (topic is None) == (graph is None):
        raise typer.BadParameter("name one topic, or a graph with --graph")
    settings = read_settings()
    if settings.leases == "none":
        raise SettingsInvalid("PIPESTREAM_LEASES is none, which keeps no desired state; use sql or consul")
    changed = []
    with closing(open_lease_store(settings)) as store:
        registered = store.topics()
        for name in [topic] if topic else _topics_of(graph):
            if name not in registered:
                known = ", ".join(registered) or "none"
                raise RequestInvalid(f"{name} is not registered; apply its graph first. Registered: {known}")
            state = store.desired(name)
            state = replace(
                state,
                started=state.started if started is None else started,
                replicas=replicas or state.replicas,
            )
            store.set_desired(name, state)
            changed.append({"topic": name, "started": state.started, "replicas": state.replicas})
    if json:
        emit_json(changed[0] if topic else changed)
        return
    for each in changed:
        replicas_ = "1 replica" if each["replicas"] == 1 else f"{each['replicas']} replicas"
        say(f"{each['topic']}: {'started' if each['started'] else 'stopped'}, {replicas_}")


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

"""``pipestream ledger``: what was planned, what is done, how far, and whether it is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import GraphsOption, JsonOption, TopicOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, note, say, show_table

if TYPE_CHECKING:
    from pipestream.ledger import Entry, Ledger
    from pipestream.settings import Settings

LaneOption = Annotated[
    str | None, typer.Option(help="Only this lane: a graph's id, or GRAPH@BACKFILL for one of its backfills.")
]
RunOption = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only this run.")]
LimitOption = Annotated[int, typer.Option(min=0, help="Show the newest so many; 0 shows all.")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(epilog=examples("pipestream ledger heads", "pipestream ledger heads --lane sample"))(heads)
    group.command(
        epilog=examples(
            "pipestream ledger entries --topic intake.sample-files",
            "pipestream ledger entries --run manual-1 --limit 0 --json",
        )
    )(entries)
    group.command(epilog=examples("pipestream ledger plans --limit 5"))(plans)
    group.command(
        epilog=examples("pipestream ledger check", "pipestream ledger check --graph dags/graphs/sample.yaml --json")
    )(check)
    # Imported here: it shows entries with the help of this module.
    from pipestream.cli.rebaseline import rebaseline

    group.command(
        epilog=examples(
            "pipestream ledger rebaseline -g dags/graphs/sample.yaml -t intake.sample-files --to earliest --yes",
            "pipestream ledger rebaseline -g dags/graphs/sample.yaml -t intake.sample-files --offset 0:1200 --yes",
        )
    )(rebaseline)
    group.command(epilog=examples("pipestream ledger upkeep", "pipestream ledger upkeep --retention-hours 720 --json"))(
        upkeep
    )
    app.add_typer(group, name="ledger", help="Show the ledger: heads, entries, plans, and whether it is complete.")


def heads(topic: TopicOption = None, lane: LaneOption = None, json: JsonOption = False) -> None:
    """Show how far each partition of each topic is drained."""
    from pipestream.views.ledger import head_rows

    rows = head_rows(_open_ledger(read_settings()), lane=lane, topic=topic)
    if json:
        emit_json(rows)
    elif not rows:
        say("the ledger has no entries yet")
    else:
        show_table(["lane", "topic", "partition", "head"], [list(row.values()) for row in rows], numbers=["head"])


def entries(
    topic: TopicOption = None,
    run: RunOption = None,
    lane: LaneOption = None,
    limit: LimitOption = 50,
    json: JsonOption = False,
) -> None:
    """Show the ranges that are done, newest first: who did them and what became of their records."""
    from pipestream.views.ledger import entry_values

    found = _open_ledger(read_settings()).entries(topic=topic, run_id=run, lane=lane)
    newest = sorted(found, key=lambda e: (e.entered_at, e.range), reverse=True)[: limit or None]
    if json:
        emit_json([entry_values(entry) for entry in newest])
        return
    if not newest:
        say("no entries")
        return
    show_table(
        ["entered (UTC)", "lane", "range", "kind", "records", "documents out", "dead", "s", "run"],
        [
            [
                entry.entered_at,
                entry.lane,
                entry.range,
                entry.kind.value,
                entry.tally.records if entry.tally else None,
                _out(entry),
                entry.tally.dead_letters if entry.tally else None,
                entry.seconds,
                entry.run_id,
            ]
            for entry in newest
        ],
        numbers=["records", "dead", "s"],
        fold=["range", "documents out", "run"],
    )
    _say_left_out(len(found), len(newest))


def plans(
    topic: TopicOption = None,
    run: RunOption = None,
    lane: LaneOption = None,
    limit: LimitOption = 50,
    json: JsonOption = False,
) -> None:
    """Show what runs planned to drain, newest first, and why the work was cut into tasks as it was.

    A plan without entries was abandoned, or its run is not done.
    """
    from pipestream.views.ledger import plan_values

    ledger = _open_ledger(read_settings())
    found = ledger.plans(topic=topic, run_id=run, lane=lane)
    newest = ledger.with_tasks(sorted(found, key=lambda p: (p.planned_at, p.plan_id), reverse=True)[: limit or None])
    if json:
        emit_json([plan_values(plan) for plan in newest])
        return
    if not newest:
        say("no plans")
        return
    show_table(
        ["planned (UTC)", "lane", "topic", "slot", "ranges", "offsets", "graph", "run", "tasks"],
        [
            [
                plan.planned_at,
                plan.lane,
                plan.topic,
                plan.slot,
                " ".join(f"{r.partition}:{r.start}..{r.end}" for r in plan.ranges),
                sum(len(r) for r in plan.ranges),
                plan.graph_hash[:12],
                plan.run_id,
                plan.tasks_reason,
            ]
            for plan in newest
        ],
        numbers=["offsets"],
        fold=["ranges", "run", "tasks"],
    )
    _say_left_out(len(found), len(newest))


def check(graph: GraphsOption = None, topic: TopicOption = None, json: JsonOption = False) -> None:
    """Check whether the ledger is complete: ranges join without gap or overlap, up to the end of each topic.

    Ends with 0 if it is complete, with 1 if records wait to be drained, with 2 if entries are missing, are there twice
    or do not fit the topic.
    """
    from pipestream.kafka.broker import Broker
    from pipestream.ledger.check import FaultKind
    from pipestream.views.audit import audit_graph
    from pipestream.views.ledger import audit_values

    settings = read_settings()
    ledger = _open_ledger(settings)
    broker = Broker(settings)
    audits = [
        (each.graph_id, audit)
        for each in read_graphs(settings, graph)
        for audit in audit_graph(broker, ledger, each, [topic] if topic else None)
    ]
    faults = [fault for _, audit in audits for fault in audit.faults]
    only_waits = all(fault.kind is FaultKind.WAITING for fault in faults)
    if json:
        emit_json({"complete": not faults, "topics": [audit_values(lane, audit) for lane, audit in audits]})
    else:
        show_table(
            ["lane", "topic", "entries", "lag", "verdict"],
            [
                [lane, audit.topic, len(audit.entries), audit.lag, "; ".join(map(str, audit.faults)) or "complete"]
                for lane, audit in audits
            ],
            numbers=["entries", "lag"],
            fold=["verdict"],
        )
        if faults and only_waits:
            say("the ledger has no gap; what waits is for the next run", style="yellow")
        else:
            say(f"ledger {'INCOMPLETE' if faults else 'complete'}", style="red" if faults else "green")
    if faults:
        raise typer.Exit(1 if only_waits else 2)


def upkeep(
    # The shortest there is; a test compares it with the ledger's own, whose import takes too long for a help text.
    retention_hours: Annotated[
        int,
        typer.Option(
            help="Keep files for this many hours after the last version that needs them; not less than the default."
        ),
    ] = 168,
    json: JsonOption = False,
) -> None:
    """Keep the ledger fast: join small files, delete old ones, write a checkpoint. Runs may continue meanwhile."""
    from pipestream.ledger.upkeep import tidy

    ledger = _open_ledger(read_settings())
    done = [tidy(name, table, retention_hours) for name, table in ledger.delta_tables().items()]
    if json:
        emit_json(done)
        return
    if not done:
        say("the ledger has no tables yet")
        return
    show_table(
        ["table", "files joined", "into", "kept for (h)", "version"],
        [[each.table, each.files_joined, each.files_made, each.retention_hours, each.version] for each in done],
        numbers=["files joined", "into", "kept for (h)", "version"],
    )


def _open_ledger(settings: Settings) -> Ledger:
    """Return the ledger of the settings, and print its address: an empty ledger may simply be the wrong one."""
    from pipestream.ledger import Ledger

    ledger = Ledger(settings)
    note(f"ledger {ledger.root}")
    return ledger


def _out(entry: Entry) -> str | None:
    if entry.tally is None:
        return None
    return ", ".join(f"{edge} {count}" for edge, count in sorted(entry.tally.documents_out.items()))


def _say_left_out(found: int, shown: int) -> None:
    if shown < found:
        say(f"{found - shown} older ones are not shown; --limit 0 shows all", style="dim")

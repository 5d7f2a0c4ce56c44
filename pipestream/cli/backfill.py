"""``pipestream backfill``: drain a past range of a topic again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.drain import AcceptOption, SparkOption, describe, run_request
from pipestream.cli.options import JsonOption, SinceOption, UntilOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, say, show_table
from pipestream.ids import new_run_id

if TYPE_CHECKING:
    from pipestream.drain.backfill import Estimate
    from pipestream.drain.report import DrainReport
    from pipestream.drain.request import DrainRequest
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream backfill march --datasource sample-files --since 2026-03-01 --until 2026-04-01 --dry-run",
            "pipestream backfill six-hours --topic pipestream.main.enrich --since PT6H",
            "pipestream backfill one -g dags/graphs/sample.yaml -t intake.sample-files --offsets 0:100-200 --spark",
        )
    )(backfill)


def backfill(
    backfill_id: Annotated[
        str, typer.Argument(help="Names the backfill. Repeat the command with the same name to resume it.")
    ],
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            "-g",
            metavar="FILE",
            help="Only this graph; without it, every graph of the graphs folder that drains the topic.",
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="The topic to drain again.")] = None,
    datasource: Annotated[
        str | None,
        typer.Option("--datasource", "-d", metavar="ID", help="The intake topic of this datasource instead."),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION:START-END", help="These offsets instead of times, END not included; may be repeated."
        ),
    ] = None,
    doc_id: Annotated[list[str] | None, typer.Option(help="Only this document; may be repeated.")] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most offsets per ledger entry. The setting drain_budget unless given.",
        ),
    ] = None,
    accept_failures: AcceptOption = False,
    spark: SparkOption = False,
    graph_version: Annotated[
        str, typer.Option(help="now: the graph of the file; then: the version the live runs used; or a number or hash.")
    ] = "now",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would cover, and do nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Drain a past range of a topic again. Live runs continue meanwhile, and their heads never move.

    A backfill has its own lane in the ledger, GRAPH@ID. Repeating a finished backfill does nothing. If several graphs
    drain a datasource, each drains it again. Times and durations become offsets at the first run and stay fixed.
    """
    from pipestream.drain.backfill import Backfill, Estimate, estimate_backfill, parse_offsets
    from pipestream.drain.request import DrainRequest

    if (topic is None) == (datasource is None):
        raise typer.BadParameter("say what to drain again: --topic NAME, or --datasource ID")
    settings = read_settings()
    wanted = Backfill(backfill_id, since, until, parse_offsets(offsets) if offsets else None, tuple(doc_id or ()))
    name, graphs = _graphs_on(read_graphs(settings, [graph] if graph else None), topic, datasource)
    run_id = new_run_id(f"backfill-{backfill_id}")
    reports: list[Estimate | DrainReport] = []
    for each in graphs:
        request = DrainRequest(each, name, run_id, budget or settings.drain_budget, wanted, accept_failures)
        request = replace(request, graph=_version(settings, request, graph_version))
        if dry_run:
            reports.append(estimate_backfill(wanted, settings, each.graph_id, name))
        else:
            reports.append(run_request(settings, request, spark=spark))
        if not json:
            _show(each, reports[-1], several=len(graphs) > 1)
    if json:
        shown = [each if isinstance(each, Estimate) else each.to_fields() for each in reports]
        emit_json(shown[0] if topic else shown)


def _graphs_on(graphs: list[Graph], topic: str | None, datasource: str | None) -> tuple[str, list[Graph]]:
    """Return the topic, and the graphs that drain it.

    :raises RequestInvalid: none of them does.
    """
    from pipestream.errors import RequestInvalid
    from pipestream.topic_names import intake_topic
    from pipestream.topics.required import leased_topics

    name = topic or intake_topic(datasource or "")
    found = [graph for graph in graphs if name in leased_topics(graph)]
    if not found:
        places = ", ".join(graph.graph_id for graph in graphs) or "none"
        if datasource:
            known = sorted({source for graph in graphs for source in graph.datasource_by_id})
            raise RequestInvalid(
                f"no graph has a datasource {datasource!r} (graphs: {places}); there are: {', '.join(known) or 'none'}"
            )
        known = sorted({drained for graph in graphs for drained in leased_topics(graph)})
        raise RequestInvalid(f"no graph drains {name} (graphs: {places}); drained are: {', '.join(known) or 'none'}")
    return name, found


def _version(settings: Settings, request: DrainRequest, wanted: str) -> Graph:
    """Return the version of the graph that a backfill is to use."""
    from pipestream.deployment.versions import find_version
    from pipestream.drain.backfill import hash_of_then

    if wanted == "now":
        return request.graph
    graph_id = request.graph.graph_id
    if wanted == "then":
        assert request.backfill is not None
        return find_version(settings, graph_id, hash_of_then(request.backfill, settings, graph_id, request.topic))
    return find_version(settings, graph_id, int(wanted) if wanted.isdecimal() else wanted)


def _show(graph: Graph, report: Estimate | DrainReport, *, several: bool) -> None:
    from pipestream.drain.backfill import Estimate

    if several:
        say(f"graph {graph.graph_id}", style="bold")
    if not isinstance(report, Estimate):
        for line in describe(report):
            say(line)
        return
    show_table(
        ["partition", "start", "end", "offsets"],
        [[each.partition, each.start, each.end, len(each)] for each in report.ranges],
        numbers=["start", "end", "offsets"],
    )
    pace = (
        f"about {report.seconds:.0f} s of work"
        if report.seconds is not None
        else "no earlier run to estimate the time from"
    )
    say(f"{report.offsets} offsets, {pace}; nothing was done")

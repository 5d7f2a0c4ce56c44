"""``pipestream drain`` and ``backfill``: one bounded run over one topic."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestream.cli.options import GraphOption, JsonOption, aware, examples, read_settings
from pipestream.cli.output import emit_json, say, show_table

if TYPE_CHECKING:
    from pipestream.drain.backfill import Backfill, Estimate
    from pipestream.drain.model import DrainRequest
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

DrainedTopicOption = Annotated[str, typer.Option("--topic", "-t", help="The topic to drain.")]
BudgetOption = Annotated[
    int | None, typer.Option(min=1, help="Most offsets to drain; the setting drain_budget unless given.")
]
AcceptOption = Annotated[bool, typer.Option("--accept-failures", help="Write dead letters even if most records fail.")]
SparkOption = Annotated[
    bool, typer.Option("--spark/--local", help="Spread the ranges over Spark, or drain them in this process.")
]


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream drain --graph dags/graphs/sample.yaml --topic intake.sample-files",
            "pipestream drain --graph dags/graphs/sample.yaml --topic pipestream.main.enrich --spark --budget 50000",
        )
    )(drain)
    app.command(
        epilog=examples(
            "pipestream backfill march -g dags/graphs/sample.yaml -t intake.sample-files "
            "--since 2026-03-01 --until 2026-04-01 --dry-run",
            "pipestream backfill one -g dags/graphs/sample.yaml -t intake.sample-files --offsets 0:100-200 --spark",
        )
    )(backfill)


def drain(
    graph: GraphOption,
    topic: DrainedTopicOption,
    run_id: Annotated[
        str | None,
        typer.Option(help="Names the run; a retry under the same id takes up its plan. Made up unless given."),
    ] = None,
    budget: BudgetOption = None,
    accept_failures: AcceptOption = False,
    spark: SparkOption = False,
    json: JsonOption = False,
) -> None:
    """Drain what waits in a topic of a graph, up to a budget.

    Takes the topic's lease, plans ranges, drains them and enters them in the ledger. If someone else holds the
    lease, it says who and ends with 0, having done nothing.
    """
    settings = read_settings()
    request = _request(settings, graph, topic, run_id or _new_run_id(), budget, accept_failures=accept_failures)
    _tell(_submit(settings, graph, request) if spark else _drain_here(settings, request), request, json=json)


def backfill(
    backfill_id: Annotated[str, typer.Argument(help="Names the backfill; repeated, it goes on where it stopped.")],
    graph: GraphOption,
    topic: DrainedTopicOption,
    since: Annotated[datetime | None, typer.Option(help="Records from this time on (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(help="Records before this time (UTC).")] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTITION:START-END", help="These offsets instead, END not included; may be repeated."),
    ] = None,
    doc_id: Annotated[list[str] | None, typer.Option(help="Only this document; may be repeated.")] = None,
    budget: BudgetOption = None,
    accept_failures: AcceptOption = False,
    spark: SparkOption = False,
    graph_version: Annotated[
        str, typer.Option(help="now: the graph of the file; then: the version the live runs used; or a number or hash.")
    ] = "now",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would cover, and do nothing.")] = False,
    json: JsonOption = False,
) -> None:
    """Drain a stretch of a topic's past again, beside the live runs, whose heads it never moves.

    It has a lane of its own in the ledger, GRAPH@ID. A finished backfill that is repeated does nothing.
    """
    from pipestream.drain.backfill import Backfill, estimate_backfill, parse_offsets
    from pipestream.graph.write import to_yaml

    settings = read_settings()
    wanted = Backfill(
        backfill_id, aware(since), aware(until), parse_offsets(offsets) if offsets else None, tuple(doc_id or ())
    )
    run_id = f"backfill-{backfill_id}-{_new_run_id()}"
    request = _request(settings, graph, topic, run_id, budget, accept_failures=accept_failures, wanted=wanted)
    if graph_version != "now":
        request = replace(request, graph=_version(settings, request, graph_version))
    if dry_run:
        _tell_estimate(estimate_backfill(wanted, settings, request.graph.graph_id, topic), json=json)
        return
    if spark and graph_version != "now":
        with TemporaryDirectory(prefix="pipestream-graph-") as folder:
            file = Path(folder) / "graph.yaml"
            file.write_text(to_yaml(request.graph))
            report = _submit(settings, file, request)
    else:
        report = _submit(settings, graph, request) if spark else _drain_here(settings, request)
    _tell(report, request, json=json)


def describe(report: dict[str, Any], run_id: str) -> list[str]:
    """Return a drain's report in words."""
    topic = report["topic"]
    if report["status"] == "skipped":
        return [f"skipped: {report['reason']}"]
    if report["status"] == "empty":
        return [report["reason"] or f"nothing waits in {topic}"]
    out = ", ".join(f"{count} by {edge}" for edge, count in sorted(report["documents_out"].items())) or "none"
    recovered = f" and {report['recovered_ranges']} recovered" if report["recovered_ranges"] else ""
    return [
        f"{topic}: {report['records']} records in {report['ranges']} ranges{recovered}, {report['seconds']:.1f} s",
        f"documents out: {out}; dead letters: {report['dead_letters']}",
        f"see: pipestream ledger entries --run {run_id}",
    ]


def _tell(report: dict[str, Any], request: DrainRequest, *, json: bool) -> None:
    if json:
        emit_json({**report, "run_id": request.run_id, "lane": request.lane})
        return
    for line in describe(report, request.run_id):
        say(line)


def _tell_estimate(estimate: Estimate, *, json: bool) -> None:
    if json:
        emit_json(estimate)
        return
    show_table(
        ["partition", "start", "end", "offsets"],
        [[each.partition, each.start, each.end, len(each)] for each in estimate.ranges],
        numbers=["start", "end", "offsets"],
    )
    pace = f"about {estimate.seconds:.0f} s of work" if estimate.seconds is not None else "no run to judge the pace by"
    say(f"{estimate.offsets} offsets, {pace}; nothing was done")


def _version(settings: Settings, request: DrainRequest, wanted: str) -> Graph:
    """Return the version of the graph that a backfill is to use."""
    from pipestream.drain.backfill import hash_of_then
    from pipestream.graph.versions import find_version

    graph_id = request.graph.graph_id
    if wanted == "then":
        assert request.backfill is not None
        return find_version(settings, graph_id, hash_of_then(request.backfill, settings, graph_id, request.topic))
    return find_version(settings, graph_id, int(wanted) if wanted.isdecimal() else wanted)


def _request(
    settings: Settings,
    file: Path,
    topic: str,
    run_id: str,
    budget: int | None,
    *,
    accept_failures: bool,
    wanted: Backfill | None = None,
) -> DrainRequest:
    from pipestream.drain.model import DrainRequest
    from pipestream.graph.load import load_graph

    graph = load_graph(file, cel_engine=settings.cel_engine)
    return DrainRequest(graph, topic, run_id, budget or settings.drain_budget, wanted, accept_failures)


def _drain_here(settings: Settings, request: DrainRequest) -> dict[str, Any]:
    from pipestream.drain.local import spread_here
    from pipestream.drain.run import run_drain
    from pipestream.graph.versions import find_version
    from pipestream.leases import open_lease_store

    with closing(open_lease_store(settings)) as leases:
        report = run_drain(
            request,
            settings,
            spread_here(settings),
            leases=leases,
            find_graph=partial(find_version, settings, request.graph.graph_id),
        )
    return report.as_dict()


def _submit(settings: Settings, file: Path, request: DrainRequest) -> dict[str, Any]:
    from pipestream.cli.submit import submit_drain

    arguments = ["--graph", str(file.absolute()), "--topic", request.topic, "--run-id", request.run_id]
    arguments += ["--budget", str(request.budget)]
    arguments += ["--accept-failures"] if request.accept_failures else []
    if request.backfill is not None:
        arguments += _backfill_arguments(request.backfill)
    return submit_drain(settings, arguments)


def _backfill_arguments(wanted: Backfill) -> list[str]:
    arguments = ["--backfill-id", wanted.backfill_id]
    arguments += ["--since", wanted.since.isoformat()] if wanted.since else []
    arguments += ["--until", wanted.until.isoformat()] if wanted.until else []
    if wanted.offsets:
        arguments += ["--offsets", *(f"{p}:{start}-{end}" for p, (start, end) in wanted.offsets.items())]
    for doc_id in wanted.doc_ids:
        arguments += ["--doc-id", doc_id]
    return arguments


def _new_run_id() -> str:
    return f"cli-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"

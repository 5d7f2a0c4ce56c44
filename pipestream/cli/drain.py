"""``pipestream drain``: one bounded run over one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import GraphOption, JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, say
from pipestream.ids import new_run_id

if TYPE_CHECKING:
    from pipestream.drain.report import DrainReport
    from pipestream.drain.request import DrainRequest
    from pipestream.settings import Settings


def _check_start(text: str) -> str:
    """Refuse a wrong starting place at once. The run would notice it late, or never if the topic has a head."""
    from pipestream.graph.start import parse_start

    try:
        parse_start(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


BudgetOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Most offsets to drain from each slot; run again to continue. The setting drain_budget unless given.",
    ),
]
AcceptOption = Annotated[bool, typer.Option("--accept-failures", help="Write dead letters even if most records fail.")]
SparkOption = Annotated[
    bool,
    typer.Option(
        "--spark/--local", help="Run the ranges on Spark (the setting spark_mode says how), or in this process."
    ),
]
StartOption = Annotated[
    str,
    typer.Option(
        "--start-at",
        metavar="PLACE",
        parser=_check_start,
        help="Where the topic starts if it was never drained: earliest, latest, committed:GROUP, a time with its zone, "
        "or a duration such as PT6H back from now. Where the graph says, unless given.",
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream drain --graph dags/graphs/sample.yaml --topic intake.sample-files",
            "pipestream drain --graph dags/graphs/sample.yaml --topic pipestream.main.enrich --spark --budget 50000",
            "pipestream drain --graph dags/graphs/sample.yaml --topic intake.sample-files --start-at latest",
        )
    )(drain)


def drain(
    graph: GraphOption,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to drain.")],
    run_id: Annotated[
        str | None,
        typer.Option(help="Names the run. A retry with the same id resumes its plan. Generated unless given."),
    ] = None,
    budget: BudgetOption = None,
    start_at: StartOption = "",
    accept_failures: AcceptOption = False,
    spark: SparkOption = False,
    json: JsonOption = False,
) -> None:
    """Drain what waits in a topic of a graph, up to a budget.

    Takes the topic's lease, plans ranges, drains them and records them in the ledger. If another run holds the lease,
    the command names that run, does nothing and ends with 0.
    """
    from pipestream import load_graph
    from pipestream.drain.request import DrainRequest

    settings = read_settings()
    request = DrainRequest(
        graph=load_graph(graph),
        topic=topic,
        run_id=run_id or new_run_id("cli"),
        budget=budget or settings.drain_budget,
        accept_failures=accept_failures,
        start_at=start_at,
    )
    report = run_request(settings, request, spark=spark)
    if json:
        emit_json(report.to_fields())
        return
    for line in describe(report):
        say(line)


def run_request(settings: Settings, request: DrainRequest, *, spark: bool) -> DrainReport:
    """Drain, on Spark or in this process. On SIGTERM the lease is released, as on Ctrl-C."""
    from pipestream.signals import signals_as_exit

    with signals_as_exit():
        if spark:
            from pipestream.cli.submit import drain_on_spark

            return drain_on_spark(settings, request)
        from pipestream.api import requests

        return requests.run_request(request, settings)


def describe(report: DrainReport) -> list[str]:
    """Return a drain's report in words, and where to see more."""
    see = [f"see: pipestream ledger entries --run {report.run_id}"] if report.status == "drained" else []
    return report.describe() + see

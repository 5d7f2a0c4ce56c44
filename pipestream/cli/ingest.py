"""``pipestream ingest``: bring documents in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import GraphOption, JsonOption, examples, read_settings
from pipestream.cli.output import console, emit_json, note, say, show_table

if TYPE_CHECKING:
    from pipestream.connectors.report import IngestReport


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "pipestream ingest --graph dags/graphs/sample.yaml --datasource sample-files",
            "pipestream ingest --graph dags/graphs/sample.yaml --datasource sample-files ./my-documents",
        )
    )(ingest)


def ingest(
    graph: GraphOption,
    datasource: Annotated[str, typer.Option("--datasource", "-d", metavar="ID", help="A datasource of the graph.")],
    folder: Annotated[
        Path | None, typer.Argument(help="Ingest the files of this folder, not what the datasource's connector finds.")
    ] = None,
    pattern: Annotated[str, typer.Option(help="With a folder: only files whose names match.")] = "*",
    force: Annotated[bool, typer.Option("--force", help="Publish unchanged documents again, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Store documents and publish references to them on the datasource's intake topic.

    Documents that were published before and are unchanged are skipped. Documents that cannot be read are listed, and
    the command then ends with 2; all others are ingested. Nothing is done for a graph in design or a paused datasource.
    """
    from pipestream import ingest_datasource
    from pipestream.topic_names import intake_topic

    settings = read_settings()
    with show_progress(datasource) as progress:
        report = ingest_datasource(
            graph, datasource, folder=folder, pattern=pattern, force=force, progress=progress, settings=settings
        )
    if json:
        emit_json({**report.counts(), "failed": report.failed, "skipped": report.skipped})
    elif report.skipped:
        say(f"skipped: {report.skipped}")
    else:
        say(
            f"{report.documents} documents: {report.new} new, {report.changed} changed, "
            f"{report.unchanged} unchanged; {report.published} published to {intake_topic(report.datasource_id)}"
        )
        _show_rest(report)
    if report.failed_count:
        raise typer.Exit(2)


def _show_rest(report: IngestReport) -> None:
    """Show what did not become documents, and why."""
    if report.stopped:
        say(f"stopped {report.stopped}")
    if report.left_out:
        rows = [[str(each.count), reason, ", ".join(each.examples)] for reason, each in sorted(report.left_out.items())]
        show_table(["left out", "why", "such as"], rows, fold=["why", "such as"])
    if report.failed:
        show_table(["not read", "why"], [[each.source, each.reason] for each in report.failed], fold=["why"])
    if report.failed_count > len(report.failed):
        say(f"and {report.failed_count - len(report.failed)} more that could not be read")


@contextmanager
def show_progress(what: str) -> Iterator[Callable[[IngestReport], None]]:
    """Show a growing count while the block runs: a bar in a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield lambda report: note(f"{what}: {report.documents} documents, {report.published} published")
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} documents"))
    with Progress(*columns, TimeElapsedColumn(), console=console(stderr=True), transient=True) as progress:
        # A connector knows only at the end how many documents there are.
        task = progress.add_task(what, total=None)
        yield lambda report: progress.update(task, completed=report.documents)

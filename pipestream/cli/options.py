"""Options and help texts that several commands share."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
GraphOption = Annotated[Path, typer.Option("--graph", "-g", metavar="FILE", help="The graph's YAML file.")]
GraphsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--graph", "-g", metavar="FILE", help="A graph's YAML file; without it, all files of the graphs folder."
    ),
]
GraphArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The graph's YAML file.")]
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")]


def parse_moment(text: str) -> datetime:
    """Read a time of the command line: ISO 8601, UTC unless it has a zone, or a duration back from now.

    :raises typer.BadParameter: it is neither.
    """
    from pipestream.graph.start import parse_start

    with suppress(ValueError):
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    with suppress(ValueError):
        if found_ago := parse_start(text).moment(datetime.now(UTC)):
            return found_ago
    raise typer.BadParameter(
        f"{text!r} is not a time: use one such as 2026-01-31T08:00 (UTC unless it has a zone), or PT6H for 6 hours ago"
    )


SinceOption = Annotated[
    datetime | None,
    typer.Option(
        metavar="TIME",
        parser=parse_moment,
        help="From this time on: 2026-01-31T08:00 (UTC unless it has a zone), or PT6H for six hours ago.",
    ),
]
UntilOption = Annotated[
    datetime | None, typer.Option(metavar="TIME", parser=parse_moment, help="Before this time, written like --since.")
]


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: examples, one a line."""
    # Typer joins the lines of a paragraph, so each example is a paragraph of its own.
    return "\n\n".join(["[bold]Examples[/bold]", *(f"$ {line}" for line in lines)])


def read_settings() -> Settings:
    """Read the settings; imported late, because help and version need none."""
    from pipestream.settings import load_settings

    return load_settings()


def read_graphs(settings: Settings, files: list[Path] | None) -> list[Graph]:
    """Return the graphs of the files, or those of the graphs folder.

    :raises GraphInvalid: one of them breaks a rule.
    """
    from pipestream.cli.output import note
    from pipestream.errors import GraphInvalid
    from pipestream.graph.folder import load_graphs
    from pipestream.graph.load import load_graph

    if files:
        return [load_graph(file) for file in files]
    try:
        return load_graphs(settings.graphs_folder)
    except GraphInvalid:
        note(f"without --graph, every graph in {settings.graphs_folder} is read, and all must be valid")
        raise

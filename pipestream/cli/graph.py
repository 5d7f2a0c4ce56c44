"""``pipestream graph``: check, draw and explain graph files."""

from __future__ import annotations

import glob
import json as json_format
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli import graph_compare, graph_modules, graph_versions
from pipestream.cli.options import GraphArgument, JsonOption, examples, read_settings
from pipestream.cli.output import console, emit_json, note, say
from pipestream.wording import counted

if TYPE_CHECKING:
    from pipestream.graph.load import GraphCheck
    from pipestream.wire import PipeDoc


class ExportFormat(StrEnum):
    """How a graph is written as the wire's message."""

    JSON = "json"
    BINARY = "binary"


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(
        epilog=examples(
            "pipestream graph validate dags/graphs",
            "pipestream graph validate a.yaml b.yaml --json",
            "pipestream graph validate a.yaml --modules",
        )
    )(validate)
    group.command(
        epilog=examples(
            "pipestream graph show dags/graphs/sample.yaml",
            "pipestream graph show dags/graphs/sample.yaml --svg sample.svg --mermaid sample.mmd",
        )
    )(show)
    group.command(
        epilog=examples(
            "pipestream graph explain dags/graphs/sample.yaml report.html",
            "pipestream graph explain dags/graphs/sample.yaml report.pb --at parse-markup",
        )
    )(explain)
    group.command(
        epilog=examples(
            "pipestream graph export dags/graphs/sample.yaml",
            "pipestream graph export dags/graphs/sample.yaml --format binary --output sample.pb",
        )
    )(export)
    group.command(
        name="import",
        epilog=examples(
            "pipestream graph import sample.pb --output dags/graphs/sample.yaml",
            "pipestream graph import sample.json",
        ),
    )(import_message)
    group.command(epilog=examples("pipestream graph schema > graph.schema.json"))(schema)
    graph_modules.add_to(group)
    graph_versions.add_to(group)
    graph_compare.add_to(group)
    app.add_typer(group, name="graph", help="Check, draw, explain and apply graphs.")


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILES…", help="Graph files, or folders of them.")],
    modules: Annotated[
        bool,
        typer.Option("--modules", help="Also ask gRPC modules which config they take; one that is down is a warning."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check graph files, each by itself and all together, and report every problem.

    Changes nothing and, without --modules, needs no server. Ends with 2 if a graph breaks a rule.
    """
    from pipestream.graph.folder import check_graph_files
    from pipestream.graph.module_rules import AskModules

    ask = None
    if modules:
        settings = read_settings()
        ask = AskModules(settings.module_check == "require", settings)
    found = check_graph_files(_graph_files(files), look_up=True, ask=ask)
    if json:
        warnings = [warning for check in found.checks.values() for warning in check.warnings]
        emit_json(
            {
                "valid": not found.problems,
                "files": list(found.checks),
                "problems": found.problems,
                "warnings": warnings,
            }
        )
    else:
        for file, check in found.checks.items():
            _tell(file, check)
        for problem in found.between:
            say(str(problem), style="red")
    if found.problems:
        raise typer.Exit(2)


def show(
    file: GraphArgument,
    mermaid: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a Mermaid flowchart.")] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an SVG picture.")] = None,
    edges: Annotated[bool, typer.Option("--edges", help="Show the edges as a table as well.")] = False,
    json: JsonOption = False,
) -> None:
    """Draw a graph in the terminal, and to files where asked."""
    from pipestream.graph.draw import to_mermaid, to_svg
    from pipestream.graph.load import load_graph
    from pipestream.graph.show import show_edges, show_graph
    from pipestream.graph.write import graph_values

    graph = load_graph(file)
    if mermaid is not None:
        _write(mermaid, to_mermaid(graph).encode())
    if svg is not None:
        _write(svg, to_svg(graph).encode())
    if json:
        emit_json(graph_values(graph))
        return
    console().print(show_graph(graph))
    if edges:
        console().print(show_edges(graph))


def explain(
    file: GraphArgument,
    document: Annotated[Path, typer.Argument(help="A file as a connector would ingest it; .pb is a stored document.")],
    at: Annotated[str, typer.Option(metavar="NODE", help="Start at this node, not at the graph's entries.")] = "",
    json: JsonOption = False,
) -> None:
    """Show which route one document would take through a graph, and why, without running anything.

    Modules are not run, so every condition sees the document as you give it. To see the route behind a module, give a
    document as the module returns it, and name the next node with --at.
    """
    from pipestream.engine.explain import explain as explain_route
    from pipestream.errors import RequestInvalid
    from pipestream.graph.load import load_graph

    graph = load_graph(file)
    if at and at not in graph.node_by_id:
        raise RequestInvalid(f"graph {graph.graph_id} has no node {at!r}; it has: {', '.join(graph.node_by_id)}")
    explanation = explain_route(graph, _read_document(document), engine=read_settings().cel_engine, start_node_id=at)
    if json:
        emit_json(explanation)
    else:
        for line in explanation.render():
            say(line)
        if not at and any(step.module for step in explanation.steps):
            note("to see the route behind a module: pipestream graph explain FILE DOCUMENT.pb --at NODE")


def export(
    file: GraphArgument,
    format_: Annotated[ExportFormat, typer.Option("--format", help="JSON or binary protobuf.")] = ExportFormat.JSON,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file, not to stdout.")] = None,
) -> None:
    """Write a graph as the wire's PipelineGraph message."""
    from pipestream.graph.load import load_graph
    from pipestream.graph.proto import to_binary, to_json

    graph = load_graph(file)
    data = to_binary(graph) if format_ is ExportFormat.BINARY else to_json(graph).rstrip("\n").encode() + b"\n"
    if output is not None:
        _write(output, data)
    elif format_ is ExportFormat.BINARY and sys.stdout.isatty():
        raise typer.BadParameter("binary would garble the terminal; give --output FILE, or use a pipe")
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def import_message(
    file: Annotated[Path, typer.Argument(help="A PipelineGraph message: JSON, or binary protobuf.")],
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file, not to stdout.")] = None,
) -> None:
    """Write the graph file of the wire's PipelineGraph message, as `graph export` or another program made it."""
    from pipestream.errors import RequestInvalid
    from pipestream.graph.load import from_binary, from_json
    from pipestream.graph.write import to_yaml

    try:
        data = file.read_bytes()
    except OSError as error:
        raise RequestInvalid(f"{file} cannot be read: {error.strerror}") from error
    # A binary message never starts with a brace: the byte would mean field 15 as a group, which a graph does not have.
    read = from_json if file.suffix == ".json" or data.startswith(b"{") else from_binary
    text = to_yaml(read(data, source=str(file)))
    if output is None:
        sys.stdout.write(text)
    else:
        _write(output, text.encode())


def schema() -> None:
    """Print the JSON Schema of graph files, for editors."""
    from pipestream.graph.format import json_schema

    sys.stdout.write(json_format.dumps(json_schema(), indent=2) + "\n")


def _graph_files(files: list[Path]) -> list[Path]:
    from pipestream.graph.folder import SUFFIXES, find_graph_files

    found: list[Path] = []
    for file in files:
        found += find_graph_files(file) if file.is_dir() else [file]
    if not found:
        raise typer.BadParameter(f"no graph files ({', '.join(SUFFIXES)}) in {', '.join(map(str, files))}")
    return list(dict.fromkeys(found))


def _tell(file: Path, check: GraphCheck) -> None:
    if check.graph is not None:
        from pipestream.graph.write import graph_values

        written = graph_values(check.graph)  # without the happy-end that the file does not list
        parts = [counted(len(written["nodes"]), "node"), counted(len(written.get("edges", [])), "edge")]
        say(f"{file}: valid (graph {check.graph.graph_id}, {', '.join(parts)})", style="green")
    for problem in check.problems:
        say(str(problem), style="red")
    for warning in check.warnings:
        say(f"warning: {warning}", style="yellow")


def _read_document(file: Path) -> PipeDoc:
    """Make a document of a file as the folder connector does."""
    from pipestream.connectors.connector import Unreadable
    from pipestream.connectors.folder import FolderConnector
    from pipestream.errors import DocumentMissing, RecordInvalid

    if not file.is_file():
        raise DocumentMissing(f"{file} is not a file; name a document as a connector would find it")
    connector = FolderConnector(file.parent, glob.escape(file.name), recursive=False)
    found = next(iter(connector.documents()), None)
    if found is None or isinstance(found, Unreadable):
        raise RecordInvalid(
            f"{file} cannot become a document: {found.reason if found else 'hidden files are left out'}"
        )
    return found


def _write(file: Path, data: bytes) -> None:
    from pipestream.errors import RequestInvalid

    try:
        file.write_bytes(data)
    except OSError as error:
        raise RequestInvalid(f"{file} cannot be written: {error.strerror}") from error

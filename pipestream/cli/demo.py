"""``pipestream demo``: the whole product once, on real servers."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import JsonOption, examples
from pipestream.cli.output import emit_json, note, say, show_table

if TYPE_CHECKING:
    from pipestream.demo.run import DemoResult

_ERROR_LETTERS = 100


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("pipestream demo", "pipestream demo --keep", "pipestream demo --json"))(demo)


def demo(
    documents: Annotated[int, typer.Option(min=20, max=100_000, help="How many sample documents.")] = 240,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the demo's servers running.")] = False,
    json: JsonOption = False,
) -> None:
    """Run sample documents through the sample graph on real servers, and show what happened.

    Starts Kafka and PostgreSQL in .pipestream/demo on free ports. Brings the documents in by three ways: the folder
    connector, HTTP uploads to the repository, and gRPC handoffs to the engine. Runs the graph's DAG through Airflow and
    Spark, checks the ledger against the topics, and stops what it started. Every demo starts from an empty folder. Ends
    with 1 if the numbers do not add up.
    """
    from pipestream.demo.run import run_demo

    started = time.monotonic()
    result = run_demo(
        lambda line: note(f"{time.monotonic() - started:6.1f} s  {line}", style=""), documents=documents, keep=keep
    )
    problems = result.summary.problems()
    if json:
        emit_json({"ok": not problems, "problems": problems, "keep": keep, "result": result})
    else:
        _show(result, problems, keep=keep)
    if problems:
        raise typer.Exit(1)


def _show(result: DemoResult, problems: list[str], *, keep: bool) -> None:
    show_table(
        ["node", "topic", "ranges", "records", "documents out, by edge", "dead letters", "seconds"],
        [
            [
                row.node_id,
                row.topic,
                row.ranges,
                row.records,
                ", ".join(f"{edge} {count}" for edge, count in row.documents_out.items()) or "-",
                row.dead_letters,
                row.seconds,
            ]
            for row in result.rows
        ],
        title="What happened, from the ledger",
        numbers=["ranges", "records", "dead letters", "seconds"],
        fold=["topic", "documents out, by edge"],
    )
    show_table(
        ["way in", "documents in", "at happy-end", "dead letters"],
        [[way.name, way.documents_in, way.happy_end, way.dead_letters] for way in result.ways],
        title="Which way they came",
        numbers=["documents in", "at happy-end", "dead letters"],
    )
    if result.dead_letters:
        show_table(
            ["document", "failed at", "why"],
            [
                [letter["doc_id"], letter["node"], _shorten(f"{letter['error']}: {letter['message']}")]
                for letter in result.dead_letters
            ],
            title="Dead letters",
            fold=["document", "why"],
        )
    say(result.summary.line(), style="bold red" if problems else "bold green")
    for problem in problems:
        say(f"wrong: {problem}", style="red")
    sys.stdout.write("\n")
    for line in next_steps(result, keep=keep):
        say(line)


def next_steps(result: DemoResult, *, keep: bool) -> list[str]:
    """Return what a newcomer may want to do now."""
    from pipestream.local import load_spec

    program = _program()
    airflow = f"http://127.0.0.1:{load_spec().ports.airflow}"
    lines = [
        f"It took {result.seconds:.0f} s. What to do next:",
        f"  look at the ledger   PIPESTREAM_CONFIG={short_path(result.config_file)} {program} ledger entries",
        f"  see it in Airflow    {program} up, then open {airflow} (the DAG is pipestream_sample)",
        f"  stop it again        {program} down",
        f"  add your own graph   after that, write dags/graphs/NAME.yaml, then: {program} graph validate dags/graphs",
        f"  read the logs        {short_path(result.logs)}",
    ]
    if keep:
        lines.append(f"  stop the servers     PIPESTREAM_STACK_FOLDER={short_path(result.folder)} {program} down")
    return lines


def short_path(path: Path) -> str:
    """Return a path as one would type it in the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _program() -> str:
    """Return what to type for this program: its path, where the shell does not find it."""
    program = Path(sys.executable).parent / "pipestream"
    return "pipestream" if shutil.which("pipestream") == str(program) else short_path(program)


def _shorten(error: str) -> str:
    text = " ".join(error.split())
    return text if len(text) <= _ERROR_LETTERS else f"{text[: _ERROR_LETTERS - 1]}…"

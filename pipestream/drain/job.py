"""The Spark job that drains a topic: where its file is, and its command line, written and read."""

from __future__ import annotations

import argparse
import importlib.util
from datetime import datetime
from pathlib import Path

from pipestream.drain.backfill import Backfill, parse_offsets
from pipestream.drain.caller import name_caller
from pipestream.drain.request import DrainRequest
from pipestream.errors import TerminalError
from pipestream.graph.load import load_graph
from pipestream.settings import Settings

# By name, not imported: the product itself stays free of Spark.
DRAIN_JOB = "pipestream_spark.drain"


def find_drain_job() -> str:
    """Return the path of the job's file, wherever the project is installed on this machine.

    :raises TerminalError: it is not installed here.
    """
    try:
        spec = importlib.util.find_spec(DRAIN_JOB)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise TerminalError(f"{DRAIN_JOB} is not installed on this machine; install pipestream-airflow there")
    return spec.origin


def job_arguments(request: DrainRequest, graph_file: Path, outcome_file: Path) -> list[str]:
    """Return the command line that asks the job for a request, and to end when this process does.

    :param graph_file: holds the request's graph.
    :param outcome_file: where the job says how it ended; see ``report.py``.
    """
    # Ids are in one piece with their options, for they may begin with a dash.
    arguments = ["--graph", str(graph_file), "--outcome", str(outcome_file), f"--caller={name_caller()}"]
    arguments += ["--topic", request.topic, f"--run-id={request.run_id}", "--budget", str(request.budget)]
    arguments += ["--accept-failures"] if request.accept_failures else []
    arguments += ["--start-at", request.start_at] if request.start_at else []
    return arguments + (_backfill_arguments(request.backfill) if request.backfill else [])


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Read the job's command line; ``read_request`` makes a request of it."""
    parser = argparse.ArgumentParser(description="Drain one topic of a graph over Spark.")
    parser.add_argument("--graph", type=Path, required=True, help="the graph's YAML file")
    parser.add_argument("--topic", required=True, help="the topic to drain")
    parser.add_argument("--run-id", required=True, help="names the run; a retry under the same id resumes its plan")
    parser.add_argument(
        "--budget", type=int, help="most offsets this run drains of a slot (default: the setting drain_budget)"
    )
    parser.add_argument("--accept-failures", action="store_true", help="write dead letters even if most records fail")
    parser.add_argument(
        "--start-at",
        default="",
        metavar="PLACE",
        help="where the topic starts if it was never drained: earliest, latest, committed:GROUP, a time with its zone "
        "or a duration such as PT6H (default: where the graph says)",
    )
    parser.add_argument("--backfill-id", help="drain a stretch of the past again, under this name")
    parser.add_argument("--since", type=datetime.fromisoformat, help="backfill: records from this time on")
    parser.add_argument("--until", type=datetime.fromisoformat, help="backfill: records before this time")
    parser.add_argument("--offsets", nargs="+", metavar="PARTITION:START-END", help="backfill: these offsets instead")
    parser.add_argument("--doc-id", action="append", help="backfill: only this document; may be repeated")
    parser.add_argument("--caller", metavar="HOST:PID", help="end when this process of this machine is gone")
    parser.add_argument("--outcome", type=Path, help="file to write the outcome to, as JSON")
    return parser.parse_args(arguments)


def read_request(arguments: argparse.Namespace, settings: Settings) -> DrainRequest:
    """Return what a command line asks for.

    :raises GraphInvalid: the graph's file cannot be read or breaks rules.
    :raises BackfillInvalid: it asks for a backfill that cannot be.
    """
    return DrainRequest(
        graph=load_graph(arguments.graph),
        topic=arguments.topic,
        run_id=arguments.run_id,
        budget=arguments.budget or settings.drain_budget,
        backfill=_read_backfill(arguments) if arguments.backfill_id else None,
        accept_failures=arguments.accept_failures,
        start_at=arguments.start_at,
    )


def _backfill_arguments(backfill: Backfill) -> list[str]:
    arguments = ["--backfill-id", backfill.backfill_id]
    arguments += ["--since", backfill.since.isoformat()] if backfill.since else []
    arguments += ["--until", backfill.until.isoformat()] if backfill.until else []
    if backfill.offsets:
        arguments += ["--offsets", *(f"{p}:{start}-{end}" for p, (start, end) in backfill.offsets.items())]
    for doc_id in backfill.doc_ids:
        arguments += [f"--doc-id={doc_id}"]
    return arguments


def _read_backfill(arguments: argparse.Namespace) -> Backfill:
    return Backfill(
        backfill_id=arguments.backfill_id,
        since=arguments.since,
        until=arguments.until,
        offsets=parse_offsets(arguments.offsets) if arguments.offsets else None,
        doc_ids=tuple(arguments.doc_id or ()),
    )

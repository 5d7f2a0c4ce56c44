"""Drain one topic of a graph: ``spark-submit spark_jobs/drain.py --graph FILE --topic TOPIC --run-id ID``.

Ends with 0 (drained, empty or skipped), 1 (failed; the same run may be tried again) or 2 (failed for good), and
writes what happened to the file that ``--outcome`` names.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pipestream.drain.backfill import Backfill, parse_offsets
from pipestream.drain.model import DrainReport, DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import PipestreamError
from pipestream.graph.load import load_graph
from pipestream.graph.versions import find_version
from pipestream.leases import open_lease_store
from pipestream.settings import load_settings
from spark_jobs.spreading import SparkSpread

log = logging.getLogger("pipestream.drain")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, _end)
    arguments = _parse_arguments()
    try:
        outcome = _drain(arguments).as_dict()
    except PipestreamError as error:
        log.error("%s", error)
        _write(arguments.outcome, {"status": "failed", "error": str(error), "transient": error.transient})
        return 1 if error.transient else 2
    log.info("%s", outcome)
    _write(arguments.outcome, outcome)
    return 0


def _drain(arguments: argparse.Namespace) -> DrainReport:
    settings = load_settings()
    request = DrainRequest(
        graph=load_graph(arguments.graph, cel_engine=settings.cel_engine),
        topic=arguments.topic,
        run_id=arguments.run_id,
        budget=arguments.budget or settings.drain_budget,
        backfill=_backfill(arguments),
        accept_failures=arguments.accept_failures,
        start_at=arguments.start_at,
    )
    with (
        closing(open_lease_store(settings)) as leases,
        closing(SparkSpread(f"drain {request.topic}")) as spread,
    ):
        return run_drain(
            request,
            settings,
            spread,
            leases=leases,
            find_graph=partial(find_version, settings, request.graph.graph_id),
            on_lease_lost=spread.cancel,
        )


def _backfill(arguments: argparse.Namespace) -> Backfill | None:
    if not arguments.backfill_id:
        return None
    return Backfill(
        backfill_id=arguments.backfill_id,
        since=arguments.since,
        until=arguments.until,
        offsets=parse_offsets(arguments.offsets) if arguments.offsets else None,
        doc_ids=tuple(arguments.doc_id or ()),
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", type=Path, required=True, help="the graph's YAML file")
    parser.add_argument("--topic", required=True, help="the topic to drain")
    parser.add_argument("--run-id", required=True, help="names the run; a retry under the same id takes up its plan")
    parser.add_argument("--budget", type=int, help="most offsets this run drains (default: the setting drain_budget)")
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
    parser.add_argument("--outcome", type=Path, help="file to write the outcome to, as JSON")
    return parser.parse_args()


def _write(file: Path | None, outcome: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(outcome, indent=1))


def _end(signum: int, _frame: object) -> NoReturn:
    """Leave through the context managers, so that the lease is given back."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())

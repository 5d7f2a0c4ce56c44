"""Drain one topic of a graph: ``spark-submit spark_jobs/drain.py --graph FILE --topic TOPIC --run-id ID``.

The setting ``spark_mode`` says where the tasks run. On a Spark Connect server (``connect``) the job needs no
spark-submit: ``python spark_jobs/drain.py …`` starts no JVM.

Ends with 0 (drained, empty or skipped), 1 (failed; the same run may be tried again) or 2 (failed for good), and
writes what happened to the file that ``--outcome`` names.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pipestream.api.requests import run_request
from pipestream.drain.caller import watch_caller
from pipestream.drain.job import parse_arguments, read_request
from pipestream.drain.report import DrainFailure, DrainReport, write_outcome
from pipestream.errors import PipestreamError
from pipestream.settings import Settings, load_settings
from pipestream.telemetry.logs import setup_logging
from pipestream_spark.choice import find_connect

if TYPE_CHECKING:
    from pipestream_spark.connect_runner import ConnectRunner
    from pipestream_spark.runner import SparkRunner

log = logging.getLogger("pipestream.drain")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, _end)
    arguments = parse_arguments(sys.argv[1:])
    try:
        report = _drain(arguments)
    except PipestreamError as error:
        log.error("%s", error)
        write_outcome(arguments.outcome, DrainFailure.of(error))
        return 1 if error.transient else 2
    log.info("%s", report.to_fields())
    write_outcome(arguments.outcome, report)
    return 0


def _drain(arguments: argparse.Namespace) -> DrainReport:
    settings = load_settings()
    setup_logging(settings)
    request = read_request(arguments, settings)
    with closing(_open_runner(settings, request.topic)) as runner:
        if arguments.caller:
            watch_caller(arguments.caller, partial(_give_up, runner))
        return run_request(request, settings, runner)


def _open_runner(settings: Settings, topic: str) -> SparkRunner | ConnectRunner:
    """Return the runner that the setting ``spark_mode`` asks for.

    A job that spark-submit has started has paid for its Spark, so ``auto`` means that one.
    """
    is_submitted = settings.spark_mode == "auto" and "PYSPARK_GATEWAY_PORT" in os.environ
    on_connect = None if is_submitted else find_connect(settings)
    return on_connect or _open_spark_runner(topic)


def _open_spark_runner(topic: str) -> SparkRunner:
    # Each kind of runner is imported only where it is used. The other one would take a third of a second.
    from pipestream_spark.runner import SparkRunner

    return SparkRunner(f"drain {topic}")


def _give_up(runner: SparkRunner | ConnectRunner) -> None:
    """End the run as failed, so that its lease is released."""
    log.warning("the process that started this job is gone, so the job ends")
    runner.cancel_all()


def _end(signum: int, _frame: object) -> NoReturn:
    """Exit through the context managers, so that the lease is released."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())

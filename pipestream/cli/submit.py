"""Drain on Spark: in this process on a Spark Connect server that is up, or by ``spark-submit`` as a child process."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.drain.job import find_drain_job, job_arguments
from pipestream.drain.report import DrainFailure, DrainReport, read_outcome
from pipestream.errors import TransientError
from pipestream.graph.write import to_yaml
from pipestream.local.jars import spark_home
from pipestream.local.process import kill_child
from pipestream.local.spark import spark_programs_environment
from pipestream.project import python_path

if TYPE_CHECKING:
    from pipestream.drain.request import DrainRequest
    from pipestream.settings import Settings

# By name, not imported: the product itself stays free of Spark.
_CHOICE = "pipestream_spark.choice"
_STOP_TIMEOUT_S = 30.0
# The job logs to both; our stdout is for results.
_STDERR = 2


def drain_on_spark(settings: Settings, request: DrainRequest) -> DrainReport:
    """Drain where the setting ``spark_mode`` says, and return the report.

    :raises TransientError: it failed, and the same run may be tried again.
    :raises TerminalError: it failed for good, or could not be started.
    """
    from pipestream.api import requests

    runner = import_module(_CHOICE).find_connect(settings)
    if runner is None:
        return submit_drain(settings, request)
    with closing(runner):
        return requests.run_request(request, settings, runner)


def submit_drain(settings: Settings, request: DrainRequest) -> DrainReport:
    """Run the drain job on Spark, with its log on stderr, and return its report.

    :raises TransientError: it failed, and the same run may be tried again.
    :raises TerminalError: it failed for good, or could not be started.
    """
    with tempfile.TemporaryDirectory(prefix="pipestream-drain-") as folder:
        # Written to a file of its own: the graph may be an older version, which no file has.
        graph_file, outcome_file = Path(folder) / "graph.yaml", Path(folder) / "outcome.json"
        graph_file.write_text(to_yaml(request.graph))
        arguments = job_arguments(request, graph_file, outcome_file)
        spark_submit = str(spark_home() / "bin" / "spark-submit")
        code = _run([spark_submit, "--master", settings.spark_master, find_drain_job(), *arguments])
        outcome = read_outcome(outcome_file)
    if outcome is None:
        raise TransientError(f"the Spark job ended with {code} without a report; its log is above")
    if isinstance(outcome, DrainFailure):
        raise outcome.to_error()
    return outcome


def _environment() -> dict[str, str]:
    return {**os.environ, **spark_programs_environment(), "PYTHONPATH": python_path(Path.cwd())}


def _run(command: list[str]) -> int:
    """Run to the end. On Ctrl-C the job gets the same signal from the terminal, and time to release its lease."""
    with subprocess.Popen(command, env=_environment(), stdout=_STDERR) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                kill_child(process)
            raise

"""Drain over Spark: ``spark-submit`` as a child process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestream.errors import PipestreamError, TerminalError, TransientError
from pipestream.graph.write import to_yaml
from pipestream.local.jars import pyspark_home
from pipestream.local.java import find_java_home
from pipestream.settings import CONFIG_VARIABLE, config_file

if TYPE_CHECKING:
    from pipestream.drain.model import DrainRequest
    from pipestream.settings import Settings

_STOP_TIMEOUT_S = 30.0
# The job logs to both; our stdout is for results.
_STDERR = 2


def submit_drain(settings: Settings, request: DrainRequest) -> dict[str, Any]:
    """Run the drain job over Spark, its log on stderr, and return its report.

    :raises TransientError: it failed, and the same run may be tried again.
    :raises TerminalError: it failed for good, or could not be started.
    """
    with tempfile.TemporaryDirectory(prefix="pipestream-drain-") as folder:
        # The graph as it is, which is no file's if it is an older version, or was chosen from a folder.
        graph_file, outcome_file = Path(folder) / "graph.yaml", Path(folder) / "outcome.json"
        graph_file.write_text(to_yaml(request.graph))
        places = ["--graph", str(graph_file), "--outcome", str(outcome_file)]
        code = _run([*_submit_command(settings, Path(folder)), *places, *job_arguments(request)])
        if not outcome_file.is_file():
            raise TransientError(f"the Spark job ended with {code} without saying how; its log is above")
        outcome: dict[str, Any] = json.loads(outcome_file.read_text())
    if outcome["status"] == "failed":
        kind: type[PipestreamError] = TransientError if outcome["transient"] else TerminalError
        raise kind(outcome["error"])
    return outcome


def job_arguments(request: DrainRequest) -> list[str]:
    """Return a request as the job's command line says it, all but the graph."""
    arguments = ["--topic", request.topic, "--run-id", request.run_id, "--budget", str(request.budget)]
    arguments += ["--accept-failures"] if request.accept_failures else []
    arguments += ["--start-at", request.start_at] if request.start_at else []
    wanted = request.backfill
    if wanted is None:
        return arguments
    arguments += ["--backfill-id", wanted.backfill_id]
    arguments += ["--since", wanted.since.isoformat()] if wanted.since else []
    arguments += ["--until", wanted.until.isoformat()] if wanted.until else []
    if wanted.offsets:
        arguments += ["--offsets", *(f"{p}:{start}-{end}" for p, (start, end) in wanted.offsets.items())]
    for doc_id in wanted.doc_ids:
        arguments += ["--doc-id", doc_id]
    return arguments


def _submit_command(settings: Settings, scratch: Path) -> list[str]:
    # Found by name, not imported: the product itself stays free of Spark.
    job = importlib.util.find_spec("spark_jobs.drain")
    if job is None or job.origin is None:
        raise TerminalError("spark_jobs is not installed beside pipestream; install the project, or drain with --local")
    command = [str(pyspark_home() / "bin" / "spark-submit"), "--master", settings.spark_master]
    # Or it makes a folder of that name wherever the command is typed.
    command += ["--conf", f"spark.sql.warehouse.dir={scratch / 'spark-warehouse'}"]
    file = config_file()
    if file is not None:
        # Executors of a cluster do not inherit the driver's environment; only the file's name travels, no secret.
        command += ["--conf", f"spark.executorEnv.{CONFIG_VARIABLE}={file.absolute()}"]
    return [*command, job.origin]


def _environment() -> dict[str, str]:
    file = config_file()
    root = str(Path(__file__).resolve().parents[2])
    python_path = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        **os.environ,
        **({CONFIG_VARIABLE: str(file.absolute())} if file else {}),
        "JAVA_HOME": str(find_java_home()),
        "SPARK_HOME": str(pyspark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(python_path)),
    }


def _run(command: list[str]) -> int:
    """Run to the end. On Ctrl-C the job gets the same signal from the terminal, and time to give back its lease."""
    with subprocess.Popen(command, env=_environment(), stdout=_STDERR) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise

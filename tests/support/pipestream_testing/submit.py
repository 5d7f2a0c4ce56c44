"""Run the drain job as a user's Airflow would: a process of its own, which a test may kill."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream.drain.job import find_drain_job, job_arguments
from pipestream.drain.report import read_outcome
from pipestream.drain.request import DrainRequest
from pipestream_testing.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Submission:
    """How a submitted drain ended."""

    exit_code: int
    outcome: Mapping[str, Any]
    """Empty where the job died before it could say."""
    log: str


def submit_drain(
    pipeline: Pipeline, topic: str, run_id: str, environment: Mapping[str, str], *, master: str
) -> Submission:
    """Drain a topic over Spark in a process group of its own, and wait for it."""
    spark_submit = ["spark-submit", "--master", master, "--conf", "spark.ui.enabled=false"]
    return _run_job(spark_submit, pipeline, topic, run_id, environment)


def connect_drain(pipeline: Pipeline, topic: str, run_id: str, environment: Mapping[str, str]) -> Submission:
    """Drain a topic on the Spark Connect server of the settings, and wait for it. The job needs no JVM."""
    return _run_job([sys.executable], pipeline, topic, run_id, {**environment, "PIPESTREAM_SPARK_MODE": "connect"})


def _run_job(
    starter: list[str], pipeline: Pipeline, topic: str, run_id: str, environment: Mapping[str, str]
) -> Submission:
    with tempfile.TemporaryDirectory() as folder:
        outcome_file = Path(folder) / "outcome.json"
        request = DrainRequest(pipeline.graph, topic, run_id, pipeline.settings.drain_budget)
        command = [*starter, find_drain_job(), *job_arguments(request, pipeline.graph_file, outcome_file)]
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=500, check=False)
        outcome = read_outcome(outcome_file)
    return Submission(done.returncode, outcome.to_fields() if outcome else {}, done.stdout + done.stderr)

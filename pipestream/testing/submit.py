"""Run the drain job as a user's Airflow would: a spark-submit of its own, which a test may kill."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream.testing.pipeline import Pipeline

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Submission:
    """How a submitted drain ended."""

    exit_code: int
    outcome: Mapping[str, Any]
    """Empty where the job died before it could say."""
    log: str


def submit_command(pipeline: Pipeline, topic: str, run_id: str, outcome: Path, *, master: str) -> list[str]:
    """Return the command that drains a topic over Spark."""
    job = REPOSITORY / "spark_jobs" / "drain.py"
    arguments = ["--graph", pipeline.graph_file, "--topic", topic, "--run-id", run_id, "--outcome", outcome]
    return ["spark-submit", "--master", master, "--conf", "spark.ui.enabled=false", *map(str, [job, *arguments])]


def submit_drain(
    pipeline: Pipeline, topic: str, run_id: str, environment: Mapping[str, str], *, master: str
) -> Submission:
    """Drain a topic over Spark in a process group of its own, and wait for it."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.json"
        command = submit_command(pipeline, topic, run_id, outcome, master=master)
        done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=240, check=False)
        told = json.loads(outcome.read_text()) if outcome.is_file() else {}
    return Submission(done.returncode, told, done.stdout + done.stderr)

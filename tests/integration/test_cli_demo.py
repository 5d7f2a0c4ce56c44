"""The demo for real: servers, Airflow and Spark, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_demo_runs_adds_up_and_stops_what_it_started(tmp_path):
    environment = {**os.environ, "PIPESTREAM_STACK_FOLDER": str(tmp_path)}
    command = [sys.executable, "-m", "pipestream.cli.main"]

    demo = subprocess.run([*command, "demo", "--json"], env=environment, capture_output=True, text=True, check=False)
    assert demo.returncode == 0, demo.stderr
    result = json.loads(demo.stdout)["result"]
    status = subprocess.run(
        [*command, "status", "--json"],
        env={**environment, "PIPESTREAM_STACK_FOLDER": str(tmp_path / "demo")},
        capture_output=True,
        text=True,
        check=False,
    )

    summary = result["summary"]
    assert summary["documents_in"] == 240
    assert summary["happy_end"] == summary["happy_end_in_topic"] == 240 - len(result["dead_letters"])
    assert summary["faults"] == []
    assert {server["state"] for server in json.loads(status.stdout)["servers"]} == {"stopped"}

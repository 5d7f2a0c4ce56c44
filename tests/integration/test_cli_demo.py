"""The demo for real: servers, Airflow and Spark, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]


def run(*arguments, folder):
    environment = {**os.environ, "PIPESTREAM_STACK_FOLDER": str(folder)}
    command = [sys.executable, "-m", "pipestream.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def states_of_servers(folder):
    status = run("status", "--json", folder=folder)
    return {server["state"] for server in json.loads(status.stdout)["servers"]}


def test_the_demo_runs_adds_up_stops_what_it_started_and_does_all_that_again(tmp_path):
    folder = tmp_path / "demo"

    first = run("demo", "--json", folder=tmp_path)
    assert first.returncode == 0, first.stderr
    states_after_first = states_of_servers(folder)
    second = run("demo", folder=tmp_path)
    assert second.returncode == 0, second.stderr

    result = json.loads(first.stdout)["result"]
    summary, letters = result["summary"], len(result["dead_letters"])
    assert summary["documents_in"] == 240
    assert summary["happy_end"] == summary["happy_end_in_topic"] == 240 - letters
    assert summary["faults"] == []
    assert states_after_first == states_of_servers(folder) == {"stopped"}
    removed = f"removed the last demo's folder {folder}: this one starts from nothing"
    assert removed not in first.stderr
    assert removed in second.stderr
    # The samples are the same every time, so what became of them is too.
    line = f"demo: 240 documents in, {240 - letters} at happy-end, {letters} dead-lettered, ledger complete"
    assert line in second.stdout.splitlines()

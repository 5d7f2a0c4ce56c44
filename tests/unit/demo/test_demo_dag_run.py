from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import pytest

from pipestream.demo.dag_run import DagLog, TaskEvent, run_dag
from pipestream.errors import StackError
from pipestream_testing.processes import runs
from pipestream_testing.waiting import wait_until

LOG = """\
2026-11-16T03:18:02Z [info     ] Created dag run.   dagrun=<DagRun x, state:running>
2026-11-16T03:18:02Z [info     ] [DAG TEST] starting task_id=drain_intake_a map_index=-1 [airflow.sdk.definitions.dag]
2026-11-16T03:18:15Z [info     ] Task instance state updated    [airflow] rows_affected=1 ti_id=1
2026-11-16T03:19:44Z [info     ] Task instance state updated    [airflow] loc=x.py:485 new_state=success ti_id=1
2026-11-16T03:19:45Z [info     ] [DAG TEST] end task task_id=drain_intake_a map_index=-1 [airflow.sdk.definitions.dag]
2026-11-16T03:19:45Z [info     ] [DAG TEST] starting task_id=drain_b map_index=-1 [airflow.sdk.definitions.dag]
2026-11-16T03:19:46Z [info     ] Task instance state updated    [airflow] loc=x.py:485 new_state=skipped ti_id=2
2026-11-16T03:19:46Z [info     ] [DAG TEST] end task task_id=drain_b map_index=-1 [airflow.sdk.definitions.dag]
"""


def test_each_task_of_a_run_is_shown_with_its_state_and_seconds():
    log = DagLog(clock=itertools.count(100, 10).__next__)

    events = [event for event in map(log.feed, LOG.splitlines()) if event]

    assert events == [
        TaskEvent("drain_intake_a", "started"),
        TaskEvent("drain_intake_a", "success", 10),
        TaskEvent("drain_b", "started"),
        TaskEvent("drain_b", "skipped", 10),
    ]


def test_a_task_that_ends_without_a_state_has_failed():
    log = DagLog(clock=lambda: 0.0)
    log.feed("[DAG TEST] starting task_id=drain_a map_index=-1")

    assert log.feed("[DAG TEST] end task task_id=drain_a map_index=-1") == TaskEvent("drain_a", "failed")


@pytest.fixture
def airflow(tmp_path, monkeypatch):
    """Puts a program of the test's own where Airflow's is looked for."""

    def write(script: str) -> None:
        program = tmp_path / "bin" / "airflow"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program.with_name("python")))

    return write


def test_a_run_is_followed_to_its_end(airflow, tmp_path):
    airflow('echo "[DAG TEST] starting task_id=$3 map_index=-1"; printf "[DAG TEST] end task task_id=$3 x\\n"')
    events: list[TaskEvent] = []

    run_dag("my_dag", os.environ, tmp_path / "logs" / "run.log", events.append)

    assert [(event.task_id, event.state) for event in events] == [("my_dag", "started"), ("my_dag", "failed")]


def test_a_failed_run_shows_the_end_of_its_log(airflow, tmp_path):
    airflow("for n in $(seq 1 100); do echo line $n; done; exit 3")

    with pytest.raises(StackError, match=r"the run of my_dag failed \(exit code 3\)") as caught:
        run_dag("my_dag", os.environ, tmp_path / "run.log", lambda _event: None)

    assert "line 100" in str(caught.value)
    assert "line 60\n" not in str(caught.value)


def test_an_interrupted_run_leaves_no_process_behind(airflow, tmp_path):
    # A child that would outlive its parent, as a Spark driver does.
    airflow(f'sleep 300 & echo $! > {tmp_path}/child; echo "[DAG TEST] starting task_id=a map_index=-1"; wait')

    def interrupt(_event: TaskEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_dag("my_dag", os.environ, tmp_path / "run.log", interrupt)

    child = int(Path(tmp_path / "child").read_text())
    wait_until(lambda: not runs(child), f"process {child} did not end")

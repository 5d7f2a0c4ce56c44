"""Airflow for tests that parse DAGs or run an operator: the repository's plugins, a home of its own, no database."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pipestream_testing.spark_submit import FakeSpark

if TYPE_CHECKING:
    from pipestream_airflow.drain_operator import DrainOperator

REPOSITORY = Path(__file__).resolve().parents[2]

# Airflow reads its settings when it is first imported, which is while the test modules here are collected.
HOME = tempfile.mkdtemp(prefix="pipestream-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(REPOSITORY / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(REPOSITORY / "plugins")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
# A machine with much else to do may take longer over an import than Airflow allows for.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "400"

WriteGraph = Callable[[str, str], Path]


@pytest.fixture
def dags_folder(tmp_path: Path) -> Path:
    """A copy of the DAG files that read graphs, without graphs."""
    folder = tmp_path / "dags"
    (folder / "graphs").mkdir(parents=True)
    for file in (REPOSITORY / "dags").glob("pipestream_graph*.py"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def write_graph(dags_folder: Path) -> WriteGraph:
    """Writes a graph file beside the DAG files."""

    def write(name: str, text: str) -> Path:
        file = dags_folder / "graphs" / name
        file.write_text(dedent(text))
        return file

    return write


DRAINED_GRAPH = """
graph: sample
cluster: main
datasources:
  - {id: files, account: acme, entry: parse}
nodes:
  - {id: parse, type: connector}
"""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """A spark-submit on the PATH that does as it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), os.environ["PATH"]]))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    return FakeSpark(folder)


@pytest.fixture
def nothing_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before Spark, which asks real servers and has its own tests, finds no reason to skip."""
    monkeypatch.setattr("pipestream_airflow.drain_operator.find_reason_to_skip", lambda *_: "")


@pytest.fixture
def task(tmp_path: Path) -> DrainOperator:
    """The task that drains the topic of a datasource called files."""
    from pipestream_airflow.drain_operator import DrainOperator

    graph_file = tmp_path / "sample.yaml"
    graph_file.write_text(DRAINED_GRAPH)
    return DrainOperator(task_id="drain_intake_files", topic="intake.files", graph_file=str(graph_file))


@pytest.fixture
def dag_run() -> Callable[..., SimpleNamespace]:
    """Makes the part of a DAG run that tasks look at."""
    from airflow.sdk.api.datamodels._generated import DagRunType

    asked_for = datetime(2026, 11, 16, 8, 30, 15, 250_000, tzinfo=UTC)

    def make(run_type: DagRunType = DagRunType.MANUAL, clear_number: int = 0) -> SimpleNamespace:
        return SimpleNamespace(run_type=run_type, clear_number=clear_number, run_after=asked_for)

    return make


@pytest.fixture
def context(dag_run: Callable[..., SimpleNamespace]) -> Callable[..., dict[str, Any]]:
    """Makes what Airflow tells a task, with the form filled in as asked."""

    def make(**params: Any) -> dict[str, Any]:
        filled_in = {"mode": "catch_up", "topics": ["intake.files"], "budget": 500, "accept_failures": False, **params}
        return {
            "params": filled_in,
            "dag": SimpleNamespace(dag_id="pipestream_sample"),
            "dag_run": dag_run(),
            "run_id": "manual__1",
        }

    return make

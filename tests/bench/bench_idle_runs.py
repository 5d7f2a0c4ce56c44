"""Measure a run of a graph in which nothing waits: the check alone, and in Airflow against a task for each topic.

Both DAGs are run in turn by ``airflow dags test``. The seconds are those between the start of the run's first task and
the end of its last, by the lines of its log, so Airflow's own start is not among them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.drain.check import examine_topics
from pipestream.drain.request import DrainRequest
from pipestream.graph.flow import drained_topics
from pipestream.graph.load import load_graph
from pipestream.leases import open_lease_store
from pipestream_testing.bench import sized
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.slow, pytest.mark.stack, pytest.mark.airflow]

ROUNDS = sized(2, 1)
CHECKS = sized(10, 5)
EACH_ALONE = """
from pathlib import Path

from airflow.sdk import DAG

from pipestream.graph.load import load_graph
from pipestream.settings import load_settings
from pipestream_airflow.graph_dag import build_graph_dag

file = Path(__file__).parent / "graphs" / "bench.yaml"
built = build_graph_dag(load_graph(file), file, load_settings())
dag = DAG("each_alone", schedule=None, params=built.params, default_args={"retries": 0})
for task in built.tasks:
    if task.task_id.startswith("drain_"):
        type(task)(dag=dag, task_id=task.task_id, topic=task.topic, graph_file=task.graph_file)
"""


def graph_text(name: str, topics: int) -> str:
    """Return a chain of nodes that has as many drained topics as asked for."""
    nodes = [f"{name}-{number}" for number in range(topics)]
    lines = [f"graph: {name}", f"cluster: {name}", "datasources:"]
    lines += [f"  - {{id: {name}, account: acme, entry: {nodes[0]}}}", "nodes:"]
    lines += [f'  - {{id: {node}, module: "python:pipestream_testing.steps:pass_on"}}' for node in nodes]
    edges = [f"{{from: {a}, to: {b}}}" for a, b in pairwise(nodes)]
    lines.append(f"edges: [{', '.join(edges)}]")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("topics", [1, 50])
def test_seconds_of_the_check_in_which_nothing_waits(topics, settings, unique, tmp_path, scenario):
    file = tmp_path / "bench.yaml"
    file.write_text(graph_text(unique, topics))
    graph = load_graph(file)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
        apply_graph(graph, settings, leases, versions, applied_by="bench")
    requests = [DrainRequest(graph, each.topic, "run-1", settings.drain_budget) for each in drained_topics(graph)]
    taken = []
    for _ in range(CHECKS):
        started = time.perf_counter()
        found = examine_topics(settings, requests)
        taken.append(time.perf_counter() - started)
        assert all(each.reason and not each.problem for each in found)
    made = scenario(f"idle-check-{topics}", f"Nothing waits in {topics} topics: the check, without Airflow and a JVM")
    made.add("pipestream", "s", *taken)
    made.want("seconds", made.median("pipestream"), at_most=1.0)


@pytest.mark.parametrize("topics", sized([5, 50], [5]))
@pytest.mark.timeout(3600)
def test_seconds_of_a_run_in_which_nothing_waits(topics, settings, unique, airflow_env, tmp_path, scenario):
    folder = tmp_path / "dags"
    (folder / "graphs").mkdir(parents=True)
    (folder / "graphs" / "bench.yaml").write_text(graph_text(unique, topics))
    (folder / "each_alone.py").write_text(EACH_ALONE)
    (folder / "graphs.py").write_text(
        "from pipestream_airflow import build_dags\n\nglobals().update(build_dags('graphs'))\n"
    )
    write_settings(tmp_path / "settings.toml", settings)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
        graph = load_graph(folder / "graphs" / "bench.yaml")
        apply_graph(graph, settings, leases, versions, applied_by="bench")
    environment = {
        **airflow_env,
        "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "400",
    }
    took: dict[str, list[float]] = {"each_alone": [], f"pipestream_{unique}": []}
    for _ in range(ROUNDS):
        for dag_id, seconds in took.items():
            seconds.append(run_seconds(dag_id, environment))
    each, together = took.values()
    assert min(together) < min(each)
    made = scenario(f"idle-run-{topics}", f"Nothing waits in {topics} topics: a run in Airflow, by its log")
    made.add("pipestream, one check for all", "s", *together)
    made.add("a task for each topic", "s", *each, is_rival=True)


def run_seconds(dag_id: str, environment: dict[str, str]) -> float:
    """Run a DAG and return the seconds from its first task's start to its end, by the lines of its log."""
    started = None
    with subprocess.Popen(
        [sys.executable, "-m", "airflow", "dags", "test", dag_id],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            # Before this line Airflow imports its own execution API, once for the whole run.
            if started is None and "Task started" in line:
                started = time.monotonic()
            if "[DAG TEST] end task" in line:
                ended = time.monotonic()
    assert process.returncode == 0, "".join(said[-60:])
    assert started is not None, "".join(said[-60:])
    return round(ended - started, 1)

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


def check_seconds(settings, graph) -> list[float]:
    """Check all topics of a graph, several times, and return the seconds of each check."""
    requests = [DrainRequest(graph, each.topic, "run-1", settings.drain_budget) for each in drained_topics(graph)]
    taken = []
    for _ in range(CHECKS):
        started = time.perf_counter()
        found = examine_topics(settings, requests)
        taken.append(time.perf_counter() - started)
        assert all(each.reason and not each.problem for each in found)
    return taken


def apply(settings, file):
    graph = load_graph(file)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:
        apply_graph(graph, settings, leases, versions, applied_by="bench")
    return graph


@pytest.mark.parametrize("topics", [1, 50])
def test_seconds_of_the_check_in_which_nothing_waits(topics, settings, unique, tmp_path, scenario):
    file = tmp_path / "bench.yaml"
    file.write_text(graph_text(unique, topics))
    graph = apply(settings, file)
    made = scenario(f"idle-check-{topics}", f"Nothing waits, {topics} drained topics: the check, no Airflow, no JVM")
    made.add("pipestream", "s", *check_seconds(settings, graph))
    made.want_of("seconds", "pipestream", at_most=1.0)


@pytest.mark.full_form
@pytest.mark.parametrize("topics", [5, 50])
def test_seconds_of_a_run_in_which_nothing_waits(topics, settings, unique, airflow_env, tmp_path, scenario):
    folder = tmp_path / "dags"
    (folder / "graphs").mkdir(parents=True)
    (folder / "graphs" / "bench.yaml").write_text(graph_text(unique, topics))
    (folder / "each_alone.py").write_text(EACH_ALONE)
    (folder / "graphs.py").write_text(
        "from pipestream_airflow import build_dags\n\nglobals().update(build_dags('graphs'))\n"
    )
    write_settings(tmp_path / "settings.toml", settings)
    graph = apply(settings, folder / "graphs" / "bench.yaml")
    environment = {
        **airflow_env,
        "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "400",
    }
    together, each = "pipestream, one check for all", "a task for each topic"
    dags = {together: f"pipestream_{unique}", each: "each_alone"}
    took: dict[str, list[float]] = {name: [] for name in dags}
    for _ in range(ROUNDS):
        for name, dag_id in dags.items():
            took[name].append(run_seconds(dag_id, environment))
    made = scenario(f"idle-run-{topics}", f"Nothing waits, {topics} drained topics: a run in Airflow, by its log")
    for name, seconds in took.items():
        made.add(name, "s", *seconds, is_rival=name == each)
    check = made.add("of which the check, measured alone", "s", *check_seconds(settings, graph))
    share = 1 - min(1.0, check.median / made.median(together))
    made.note(f"Airflow's share of the run: {share:.0%}")
    made.want_ratio("of a task for each topic", together, each, at_most=1)


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
    return ended - started

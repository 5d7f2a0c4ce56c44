"""Builds Airflow DAGs from graphs. The only place where DAGs and their tasks are built.

The same graph gives the same DAG on every parse (sorted, no clock, no network), so Airflow sees no new
version until the graph changes.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule, get_parsing_context
from airflow.sdk.exceptions import AirflowException

from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.folder import check_graph_files, find_graph_files
from pipestream.graph.model import GraphMode
from pipestream.graph.order import DrainStep, drain_order
from pipestream.ids import graph_dag_id
from pipestream.settings import Settings, load_settings
from pipestream.topic_names import TopicKind, node_topic
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_airflow.drain_pool import POOL
from pipestream_airflow.graph_doc import describe_graph
from pipestream_airflow.ingest_operator import IngestOperator
from pipestream_airflow.live_operator import LiveServerOperator
from pipestream_airflow.run_params import form
from pipestream_airflow.upkeep_operator import ExpireOperator, UpkeepOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pipestream.graph.model import Datasource, Graph

START_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""Fixed, because it is part of the DAG's version. No past intervals are run from it."""
NOT_CRON = ("@once", "@continuous")
"""Presets that are not cron expressions; Airflow does not backfill them."""
TASK_DEFAULTS = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
}

log = logging.getLogger(__name__)


def build_dags(folder: str | Path) -> dict[str, DAG]:
    """Return a DAG for every valid graph of a folder, by its id; in a task, only the DAG that the task belongs to.

    A graph in design mode has none yet. A broken graph has none either; :func:`refuse_broken_graphs`, in a DAG file of
    its own, shows what is wrong with it.

    :param folder: a folder of graph files; a relative one is next to the file that calls this.
    """
    dags, problems = _build_folder(_next_to_caller(folder), only=get_parsing_context().dag_id)
    for problem in problems:
        log.warning("%s", problem)
    return {dag.dag_id: dag for dag in dags}


def refuse_broken_graphs(folder: str | Path) -> None:
    """Fail if any graph of a folder cannot become a DAG.

    Airflow takes down all DAGs of a file that has an import error. So the file that calls this should have no DAGs.
    Airflow shows the error under that file's name, with the graph's file and line.

    :param folder: as for :func:`build_dags`.
    :raises GraphInvalid: with every problem of every graph.
    """
    problems = _build_folder(_next_to_caller(folder))[1]
    if problems:
        raise GraphInvalid(problems)


def _next_to_caller(folder: str | Path) -> Path:
    """Return a folder relative to the DAG file that called our caller. Airflow parses in another working folder."""
    caller = sys._getframe(2).f_globals.get("__file__")
    return Path(caller).absolute().parent / folder if caller else Path(folder).absolute()


def _build_folder(folder: Path, only: str | None = None) -> tuple[list[DAG], list[Problem]]:
    try:
        found = check_graph_files(find_graph_files(folder))
    except GraphInvalid as error:
        return [], [*error.problems]
    dags = []
    problems = list(found.problems)
    for dag_id, (file, build) in _plan_dags(found.sound, load_settings(), problems).items():
        if only not in (None, dag_id):
            continue
        try:
            dag = build()
            dag.validate()  # type: ignore[no-untyped-call] # Airflow does not annotate it
        except (ValueError, AirflowException) as error:
            # Errors that only Airflow finds, such as a schedule that it cannot read.
            problems.append(Problem(str(file), None, "graph", f"cannot become the DAG {dag_id}: {error}"))
        else:
            dags.append(dag)
    return dags, problems


def _plan_dags(
    graphs: Sequence[tuple[Path, Graph]], settings: Settings, problems: list[Problem]
) -> dict[str, tuple[Path, Callable[[], DAG]]]:
    """Return how to build each DAG: those of the graphs, then of their servers, then of their datasources."""
    usable = [(graph, file) for file, graph in graphs if graph.mode is not GraphMode.DESIGN]
    planned: dict[str, tuple[Path, Callable[[], DAG]]] = {
        graph_dag_id(graph.graph_id): (file, partial(build_dag, graph, file, settings)) for graph, file in usable
    }
    for graph, file in usable:
        if not graph.live.wanted:
            continue
        dag_id = live_dag_id_of(graph)
        if dag_id in planned:
            message = f"a graph is called live_{graph.graph_id}, so both would be the DAG {dag_id}"
            problems.append(Problem(str(file), None, "live", message, "rename one"))
        else:
            planned[dag_id] = file, partial(build_live_dag, graph, file, settings)
    connected: dict[str, Datasource] = {}
    for graph, file in usable:
        for source in graph.datasources:
            if source.connector is None:
                continue
            dag_id = ingest_dag_id_of(source)
            # Two graphs may share a datasource; it is ingested once.
            first = connected.setdefault(source.datasource_id, source)
            if (first.connector, first.schedule) != (source.connector, source.schedule):
                message = f"{source.datasource_id} has another connector or schedule in another graph"
                problems.append(Problem(str(file), None, "datasources", message, "give it in one of them only"))
            elif first is source and dag_id in planned:
                message = f"a graph is called ingest_{source.datasource_id}, so both would be the DAG {dag_id}"
                problems.append(Problem(str(file), None, "datasources", message, "rename one"))
            elif first is source:
                planned[dag_id] = file, partial(build_ingest_dag, graph, source, file)
    return planned


def live_dag_id_of(graph: Graph) -> str:
    return f"pipestream_live_{graph.graph_id}"


def ingest_dag_id_of(datasource: Datasource) -> str:
    return f"pipestream_ingest_{datasource.datasource_id}"


def build_dag(graph: Graph, file: Path, settings: Settings) -> DAG:
    """Return the DAG that drains a graph's topics in its order, so that one run carries a document through.

    :param file: the file the graph was read from; its drain jobs read it again.
    """
    steps = drain_order(graph, settings.cycle_passes)
    dag = DAG(
        graph_dag_id(graph.graph_id),
        description=graph.description.strip().partition("\n")[0] or graph.name or None,
        doc_md=describe_graph(graph),
        schedule=timetable_of(graph),
        start_date=START_DATE,
        catchup=False,
        # Two runs of one graph would only wait for each other's leases.
        max_active_runs=1,
        tags=["pipestream", f"cluster:{graph.cluster_id}"],
        params=form(sorted({step.topic for step in steps}), settings.drain_budget),
        default_args=TASK_DEFAULTS,
    )
    tasks = [
        _drain_task(dag, file, step, task_id, settings)
        for step, task_id in zip(steps, task_ids(steps, graph.cluster_id), strict=True)
    ]
    for task, step in zip(tasks, steps, strict=True):
        task.set_upstream([tasks[index] for index in step.after])
    return dag


def timetable_of(graph: Graph) -> str | CronDataIntervalTimetable | None:
    """Return when a graph's runs start. With a cron expression, each run covers the time since the run before.

    Set explicitly, because with Airflow's default the runs of a backfill have no data interval.
    """
    if not graph.schedule or graph.schedule in NOT_CRON:
        return graph.schedule or None
    return CronDataIntervalTimetable(graph.schedule, timezone="UTC")


def build_ingest_dag(graph: Graph, datasource: Datasource, file: Path) -> DAG:
    """Return the DAG that runs a datasource's connector, on its schedule, or only when triggered if it has none."""
    dag = DAG(
        ingest_dag_id_of(datasource),
        description=f"Ingests the documents of {datasource.name or datasource.datasource_id}",
        schedule=datasource.schedule or None,
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        tags=["pipestream", "ingest", f"cluster:{graph.cluster_id}"],
        default_args=TASK_DEFAULTS,
    )
    IngestOperator(dag=dag, task_id="ingest", datasource_id=datasource.datasource_id, graph_file=str(file))
    return dag


def build_live_dag(graph: Graph, file: Path, settings: Settings) -> DAG:
    """Return the DAG that keeps a graph's servers up, one task each. A run hands them over to the next one."""
    dag = DAG(
        live_dag_id_of(graph),
        description=f"Keeps up the servers of {graph.name or graph.graph_id}",
        schedule="@continuous",
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        tags=["pipestream", "live", f"cluster:{graph.cluster_id}"],
        # A retry adopts the server of a task that died, so it should come within the minute that the server waits.
        default_args={**TASK_DEFAULTS, "retry_delay": timedelta(seconds=5)},
    )
    for server, way in graph.live.wanted.items():
        LiveServerOperator(
            dag=dag,
            task_id=server,
            server=server,
            external=way == "external",
            graph_file=str(file),
            consul_conn_id=settings.consul_conn_id,
        )
    return dag


def build_upkeep_dag() -> DAG:
    """Return the DAG that tidies the ledger and deletes documents that have expired.

    It runs every day. Between two runs no record may be written and deleted again, and topics may keep records for less
    than a week.
    """
    dag = DAG(
        "pipestream_upkeep",
        description="Joins the ledger's small files, and deletes documents that have expired",
        schedule="@daily",
        start_date=START_DATE,
        catchup=False,
        max_active_runs=1,
        tags=["pipestream"],
        default_args=TASK_DEFAULTS,
    )
    UpkeepOperator(dag=dag, task_id="tidy_ledger")
    ExpireOperator(dag=dag, task_id="expire_documents")
    return dag


def task_ids(steps: Sequence[DrainStep], cluster_id: str) -> list[str]:
    """Return a readable task id for each step.

    :raises ValueError: two steps would have the same, as a node ``intake_a`` and a datasource ``a`` do.
    """
    found: dict[str, DrainStep] = {}
    for step in steps:
        task_id = _task_id(step, cluster_id)
        other = found.setdefault(task_id, step)
        if other is not step:
            raise ValueError(f"{other.topic} and {step.topic} would both be task {task_id}; rename one")
    return list(found)


def _task_id(step: DrainStep, cluster_id: str) -> str:
    if step.kind is TopicKind.INTAKE:
        name = f"intake_{step.datasource_id}"
    elif step.kind is TopicKind.BRIDGE:
        name = f"bridge_{step.node_id}"
    elif step.topic == node_topic(cluster_id, step.node_id):
        name = step.node_id
    else:  # an edge with a topic of its own, so the node has several
        name = f"{step.node_id}__from_{step.topic}"
    return f"drain_{name}" + (f"__pass{step.pass_number}" if step.pass_number > 1 else "")


def _drain_task(dag: DAG, file: Path, step: DrainStep, task_id: str, settings: Settings) -> DrainOperator:
    return DrainOperator(
        dag=dag,
        task_id=task_id,
        topic=step.topic,
        graph_file=str(file),
        consul_conn_id=settings.consul_conn_id,
        pool=POOL,
        # Airflow starts several runs of a backfill at once, next to the scheduled ones. Behind intake they share a
        # lane: each waits for its turn. Without that, it would be skipped because another run has the lease.
        max_active_tis_per_dag=None if step.kind is TopicKind.INTAKE else 1,
        # A topic in which nothing waits is skipped; the topics behind it must still be drained.
        trigger_rule=TriggerRule.NONE_FAILED,
    )

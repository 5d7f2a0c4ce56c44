"""Builds Airflow DAGs from graphs: which DAGs there are, and those next to a graph's own (``graph_dag.py``).

The same graph gives the same DAG on every parse (sorted, no clock, no network), so Airflow sees no new
version until the graph changes.
"""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, get_parsing_context
from airflow.sdk.exceptions import AirflowException

from pipestream.errors import GraphInvalid, Problem
from pipestream.graph.folder import check_graph_files, find_graph_files
from pipestream.graph.model import GraphMode
from pipestream.ids import approval_dag_id, graph_dag_id, graph_of_dag_id
from pipestream.settings import Settings, load_settings
from pipestream_airflow.assets import datasource_asset
from pipestream_airflow.graph_dag import START_DATE, TASK_DEFAULTS, build_graph_dag
from pipestream_airflow.ingest_operator import IngestOperator
from pipestream_airflow.live_operator import LiveServerOperator
from pipestream_airflow.upkeep_operator import ExpireOperator, UpkeepOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pipestream.graph.model import Datasource, Graph
    from pipestream_airflow.notify import OnDeadLetters

log = logging.getLogger(__name__)


def build_dags(
    folder: str | Path,
    *,
    on_age_at_risk: Callable[[Any], Any] | None = None,
    on_dead_letters: OnDeadLetters = None,
) -> dict[str, DAG]:
    """Return a DAG for every valid graph of a folder, by its id; in a task, only the DAG that the task belongs to.

    A graph in design mode has none yet. A broken graph has none either; :func:`refuse_broken_graphs`, in a DAG file of
    its own, shows what is wrong with it.

    :param folder: a folder of graph files; a relative one is next to the file that calls this.
    :param on_age_at_risk: called by the first task of a run if documents of a graph will be older than its
        ``age_target_seconds``: a notifier of Airflow, or a function that takes a context. ``age`` in it says why.
    :param on_dead_letters: a notifier of Airflow, or several, that are called once by a run that left dead letters;
        None: the one that the settings name, if any. In its templates ``dead_letters.message`` is the text.
    """
    plan = partial(_plan_dags, on_age_at_risk=on_age_at_risk, on_dead_letters=on_dead_letters)
    dags, problems = _build_folder(_next_to_caller(folder), only=get_parsing_context().dag_id, plan=plan)
    for problem in problems:
        log.warning("%s", problem)
    return {dag.dag_id: dag for dag in dags}


def build_approval_dags(folder: str | Path) -> dict[str, DAG]:
    """Return, for every valid graph of a folder, the DAG that asks for approval before what cannot be undone.

    A graph in design mode has none. What is wrong with a graph is shown where :func:`build_dags` is used.

    :param folder: as for :func:`build_dags`.
    """
    dags, _ = _build_folder(_next_to_caller(folder), only=get_parsing_context().dag_id, plan=_plan_approvals)
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


Planned = dict[str, tuple[Path, "Callable[[], DAG]"]]
"""How to build each DAG, by its id, and the file of its graph."""


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause Python's collector of cyclic garbage, which took a quarter of a parse.

    Everything that is made here stays. The collector would go through it, and through all of Airflow, again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_without_collector()
def _build_folder(
    folder: Path, only: str | None = None, plan: Callable[..., Planned] | None = None
) -> tuple[list[DAG], list[Problem]]:
    try:
        files = find_graph_files(folder)
        found = check_graph_files(files if only is None else files_of(only, files))
    except GraphInvalid as error:
        return [], [*error.problems]
    dags = []
    problems = list(found.problems)
    for dag_id, (file, build) in (plan or _plan_dags)(found.sound, load_settings(), problems).items():
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


def files_of(dag_id: str, files: Sequence[Path]) -> Sequence[Path]:
    """Return the graph files that a DAG can be made from: those in which the id of its graph or datasource stands.

    A task needs one DAG, and reading and checking the graphs of all others took most of its parse. If no file has the
    id, because YAML can write it in other ways, these are all files.
    """
    name = graph_of_dag_id(dag_id)
    ids = {name, name.removeprefix("live_"), name.removeprefix("ingest_")}
    return [file for file in files if _has_one_of(ids, file)] or files


def _has_one_of(ids: set[str], file: Path) -> bool:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return True  # what is wrong with it is said where it is checked
    return any(each in text for each in ids)


def _plan_dags(
    graphs: Sequence[tuple[Path, Graph]],
    settings: Settings,
    problems: list[Problem],
    on_age_at_risk: Callable[[Any], Any] | None = None,
    on_dead_letters: OnDeadLetters = None,
) -> Planned:
    """Return how to build each DAG: those of the graphs, then of their servers, then of their datasources."""
    usable = [(graph, file) for file, graph in graphs if graph.mode is not GraphMode.DESIGN]
    planned: Planned = {
        graph_dag_id(graph.graph_id): (
            file,
            partial(
                build_graph_dag,
                graph,
                file,
                settings,
                on_age_at_risk=on_age_at_risk,
                on_dead_letters=on_dead_letters,
            ),
        )
        for graph, file in usable
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


def _plan_approvals(
    graphs: Sequence[tuple[Path, Graph]],
    settings: Settings,
    problems: list[Problem],  # noqa: ARG001 - their ids cannot be those of other DAGs
) -> Planned:
    """Return how to build the approval DAG of each graph."""
    # Not at the top: other DAG files need not import the operators of people's decisions.
    from pipestream_airflow.approval_dag import build_approval_dag

    return {
        approval_dag_id(graph.graph_id): (file, partial(build_approval_dag, graph, file, settings))
        for file, graph in graphs
        if graph.mode is not GraphMode.DESIGN
    }


def live_dag_id_of(graph: Graph) -> str:
    return f"pipestream_live_{graph.graph_id}"


def ingest_dag_id_of(datasource: Datasource) -> str:
    return f"pipestream_ingest_{datasource.datasource_id}"


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
    IngestOperator(
        dag=dag,
        task_id="ingest",
        datasource_id=datasource.datasource_id,
        graph_file=str(file),
        outlets=[datasource_asset(datasource.datasource_id)],
    )
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

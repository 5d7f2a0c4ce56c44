"""The DAG of one graph: a check, a drain task for each topic in the graph's order, and a report."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetAny, CronDataIntervalTimetable, TaskGroup, TriggerRule
from airflow.sdk.definitions.param import ParamsDict

from pipestream.graph.flow import fed_topics
from pipestream.graph.model import ON_ARRIVAL
from pipestream.graph.order import DrainStep, drain_order
from pipestream.ids import graph_dag_id
from pipestream.topic_names import TopicKind, node_topic
from pipestream_airflow.assets import arrival_asset, complete_hours_asset, datasource_asset, topic_asset, written_assets
from pipestream_airflow.check_operator import CheckOperator
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_airflow.drain_pool import POOL
from pipestream_airflow.graph_doc import describe_graph
from pipestream_airflow.hours_operator import CompleteHoursOperator
from pipestream_airflow.report_operator import ReportOperator
from pipestream_airflow.retry_policy import ErrorTreePolicy
from pipestream_airflow.run_form import form
from pipestream_airflow.task_copies import copy_task, run_after

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from airflow.sdk import Asset

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings
    from pipestream_airflow.notify import OnDeadLetters

START_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""Fixed, because it is part of the DAG's version. No past intervals are run from it."""
NOT_CRON = ("@once", "@continuous")
"""Presets that are not cron expressions; Airflow does not backfill them."""
TASK_DEFAULTS: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
    "retry_policy": ErrorTreePolicy(),
}


def build_graph_dag(
    graph: Graph,
    file: Path,
    settings: Settings,
    *,
    on_age_at_risk: Callable[[Any], Any] | None = None,
    on_dead_letters: OnDeadLetters = None,
) -> DAG:
    """Return the DAG that drains a graph's topics in its order, so that one run carries a document through.

    :param file: the file the graph was read from; its drain jobs read it again.
    :param on_age_at_risk: called by the first task if documents will be older than the graph's target.
    :param on_dead_letters: notifiers, which the last task of a run calls if it left dead letters.
    """
    feeds = fed_topics(graph)
    steps = drain_order(graph, settings.cycle_passes, feeds)
    dag = DAG(
        graph_dag_id(graph.graph_id),
        description=graph.description.strip().partition("\n")[0] or graph.name or None,
        doc_md=describe_graph(graph),
        schedule=timetable_of(graph, settings),
        start_date=START_DATE,
        catchup=False,
        # Two runs of one graph would only wait for each other's leases.
        max_active_runs=1,
        tags=sorted({"pipestream", f"cluster:{graph.cluster_id}", *account_tags(graph)}),
        default_args=TASK_DEFAULTS | {"owner": owner_of(graph)},
    )
    check = CheckOperator(
        dag=dag, task_id="check", consul_conn_id=settings.consul_conn_id, on_age_at_risk=on_age_at_risk
    )
    # A teardown: Airflow runs it when all drains have ended, and it does not decide whether the run has failed.
    report = ReportOperator(
        dag=dag, task_id="report", graph_id=graph.graph_id, graph_file=str(file), on_dead_letters=on_dead_letters
    ).as_teardown()
    drains = _drain_tasks(dag, graph, file, steps, written_assets(feeds), settings)
    last = [report, *_hours_tasks(dag, graph, file)]
    for task, step in zip(drains, steps, strict=True):
        run_after(task, [drains[index] for index in step.after] or [check])
    for task in last:
        run_after(task, [check, *drains])
    # Last: Airflow copies what a DAG has here into each task that is made later, which took half of the parse. Past the
    # DAG's own setter: that checks the form's defaults against their JSON schemas, which took another fifth. A test
    # checks them, and Airflow checks the form of each run.
    params = ParamsDict(form(sorted({step.topic for step in steps}), settings.drain_budget))
    object.__setattr__(dag, "params", params)
    return dag


def timetable_of(graph: Graph, settings: Settings) -> str | CronDataIntervalTimetable | AssetAny | None:
    """Return when a graph's runs start.

    With a cron expression, each run covers the time since the run before. Set explicitly, because with Airflow's
    default the runs of a backfill have no data interval. With ``on_arrival``, a run starts when an ingestion has
    brought documents in, and when enough waits that came in another way.
    """
    if graph.schedule == ON_ARRIVAL:
        sources = sorted(source.datasource_id for source in graph.datasources if source.connector is not None)
        return AssetAny(arrival_asset(graph, settings), *map(datasource_asset, sources))
    if not graph.schedule or graph.schedule in NOT_CRON:
        return graph.schedule or None
    return CronDataIntervalTimetable(graph.schedule, timezone="UTC")


def owner_of(graph: Graph) -> str:
    """Return the account that a graph's documents belong to, as the owner of its tasks; several: all of them."""
    return ", ".join(sorted({source.account_id for source in graph.datasources})) or "pipestream"


def account_tags(graph: Graph) -> list[str]:
    return sorted({f"account:{source.account_id}" for source in graph.datasources})


def stages_of(steps: Sequence[DrainStep]) -> list[int]:
    """Return the stage of each step: 1 for intake, and behind it one more than the last stage that it waits for."""
    stages: list[int] = []
    for step in steps:
        first = 1 if step.kind is TopicKind.INTAKE else 2
        stages.append(max([first, *(stages[index] + 1 for index in step.after)]))
    return stages


def task_ids(steps: Sequence[DrainStep], cluster_id: str) -> list[str]:
    """Return a readable task id for each step.

    :raises ValueError: two steps would have the same, as a node ``intake_a`` and a datasource ``a`` do.
    """
    found: dict[str, DrainStep] = {}
    for step in steps:
        task_id = f"drain_{_name(step, cluster_id)}"
        other = found.setdefault(task_id, step)
        if other is not step:
            raise ValueError(f"{other.topic} and {step.topic} would both be task {task_id}; rename one")
    return list(found)


def _name(step: DrainStep, cluster_id: str) -> str:
    if step.kind is TopicKind.INTAKE:
        name = f"intake_{step.datasource_id}"
    elif step.kind is TopicKind.BRIDGE:
        name = f"bridge_{step.node_id}"
    elif step.topic == node_topic(cluster_id, step.node_id):
        name = step.node_id
    else:  # an edge with a topic of its own, so the node has several
        name = f"{step.node_id}__from_{step.topic}"
    return name + (f"__pass{step.pass_number}" if step.pass_number > 1 else "")


def _drain_tasks(
    dag: DAG,
    graph: Graph,
    file: Path,
    steps: Sequence[DrainStep],
    written: Mapping[str, Sequence[Asset]],
    settings: Settings,
) -> list[DrainOperator]:
    """Return the drain tasks in the order of the steps, with those of a stage in a group of their own.

    A stage of one topic needs no group. Task ids do not contain the group's, so a task keeps its id and its history
    when the graph gets another node.
    """
    stages = stages_of(steps)
    width = len(str(max(stages, default=1)))
    groups: dict[int, TaskGroup] = {}
    sizes = Counter(stages)
    for stage in sorted(stage for stage, size in sizes.items() if size > 1):
        name = "intake" if stage == 1 else f"stage_{stage:0{width}d}"
        groups[stage] = TaskGroup(
            name,
            dag=dag,
            prefix_group_id=False,
            group_display_name=f"{stage:0{width}d}. " + ("intake" if stage == 1 else "drained side by side"),
            tooltip=f"{sizes[stage]} topics that may be drained at the same time",
        )
    names = task_ids(steps, graph.cluster_id)
    # With the longest id, because only this task's id is checked by Airflow. Without the DAG, because the copies must
    # not be in it yet.
    pattern = DrainOperator(
        **TASK_DEFAULTS,
        owner=owner_of(graph),
        task_id=max(names, key=len, default="drain"),
        topic="",
        graph_file=str(file),
        consul_conn_id=settings.consul_conn_id,
        pool=POOL,
        # A topic in which nothing waits is skipped; the topics behind it must still be drained.
        trigger_rule=TriggerRule.NONE_FAILED,
    )
    tasks = []
    for step, stage, name in zip(steps, stages, names, strict=True):
        task = copy_task(
            pattern,
            task_id=name,
            topic=step.topic,
            # Airflow starts several runs of a backfill at once, next to the scheduled ones. Behind intake they share a
            # lane: each waits for its turn. Without that, it would be skipped because another run has the lease.
            max_active_tis_per_dag=None if step.kind is TopicKind.INTAKE else 1,
            doc_md=_describe_step(graph, step),
            inlets=[topic_asset(step.topic)],
            outlets=[*written[step.topic]],
        )
        with groups.get(stage) or nullcontext():
            dag.add_task(task)
        tasks.append(task)
    return tasks


def _hours_tasks(dag: DAG, graph: Graph, file: Path) -> list[CompleteHoursOperator]:
    """Return the task that says which hours are complete, if a datasource of the graph wants it.

    A teardown, as the report is: a failed drain leaves its hours incomplete, and the run failed.
    """
    sources = sorted(source.datasource_id for source in graph.datasources if source.complete_hours)
    if not sources:
        return []
    assets = [complete_hours_asset(graph.graph_id, source) for source in sources]
    task = CompleteHoursOperator(
        dag=dag,
        task_id="complete_hours",
        graph_file=str(file),
        datasource_ids=sources,
        inlets=assets,
        outlets=assets,
        # What one run has said, the next one must know: two at once would say the same hour twice.
        max_active_tis_per_dag=1,
    )
    return [task.as_teardown()]


def _describe_step(graph: Graph, step: DrainStep) -> str:
    node = graph.node_by_id[step.node_id]
    does = f"runs `{node.module}`" if node.module else "passes documents on"
    return f"Drains `{step.topic}` into node `{step.node_id}`, which {does}."

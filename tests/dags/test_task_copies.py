from __future__ import annotations

import copy
import json

import pytest
from airflow.sdk import DAG, Param, TaskGroup, TriggerRule
from airflow.serialization.serialized_objects import DagSerialization

from pipestream_airflow.assets import topic_asset
from pipestream_airflow.drain_operator import DrainOperator
from pipestream_airflow.graph_dag import START_DATE, TASK_DEFAULTS
from pipestream_airflow.task_copies import copy_task, run_after

SAME = {
    **TASK_DEFAULTS,
    "owner": "acme",
    "graph_file": "/graphs/chain.yaml",
    "consul_conn_id": "consul",
    "pool": "drains",
    "trigger_rule": TriggerRule.NONE_FAILED,
}
OWN = [
    {
        "task_id": f"drain_{name}",
        "topic": f"pipestream.main.{name}",
        "doc_md": f"Drains {name}.",
        "max_active_tis_per_dag": limit,
        "inlets": [topic_asset(f"pipestream.main.{name}")],
        "outlets": [topic_asset("pipestream.main.end")],
    }
    for name, limit in (("first", None), ("second", 1), ("third", 1))
]


def new_dag() -> DAG:
    return DAG("chain", schedule=None, start_date=START_DATE, default_args=TASK_DEFAULTS | {"owner": "acme"})


def made_anew() -> DAG:
    """A DAG as Airflow's documentation makes it: each task by its class, and dependencies between tasks."""
    with new_dag() as dag:
        first = DrainOperator(**SAME, **OWN[0])
        with TaskGroup("side_by_side", prefix_group_id=False) as group:
            for own in OWN[1:]:
                DrainOperator(**SAME, **own)
        first >> group
    return dag


def made_of_copies() -> DAG:
    dag = new_dag()
    group = TaskGroup("side_by_side", dag=dag, prefix_group_id=False)
    pattern = DrainOperator(**SAME, task_id="pattern", topic="")
    first, *others = (copy_task(pattern, **own) for own in OWN)
    dag.add_task(first)
    for other in others:
        with group:
            dag.add_task(other)
        run_after(other, [first])
    return dag


def serialized(dag: DAG) -> dict:
    found = json.loads(json.dumps(DagSerialization.to_dict(dag), sort_keys=True))
    # Between a task and a group, Airflow also notes the group. We have edges between tasks only.
    (group,) = (value for kind, value in found["dag"]["task_group"]["children"].values() if kind != "operator")
    group["upstream_task_ids"] = []
    return found


def test_a_dag_of_copied_tasks_is_serialized_as_one_whose_tasks_are_made_anew():
    assert serialized(made_of_copies()) == serialized(made_anew())


@pytest.mark.parametrize("task_id", [own["task_id"] for own in OWN])
def test_a_copied_task_has_every_attribute_of_one_that_is_made_anew(task_id):
    copied, anew = (vars(dag.get_task(task_id)).copy() for dag in (made_of_copies(), made_anew()))
    for values in (copied, anew):
        for name in ("_dag", "task_group"):
            assert values.pop(name)
    # The arguments that Airflow remembers. A task that is made inside a DAG or a group has these too.
    remembered, all_arguments = (values.pop("_BaseOperator__init_kwargs") for values in (copied, anew))

    assert remembered == {name: all_arguments[name] for name in remembered}
    assert copied == anew


def test_copied_tasks_share_nothing_that_can_be_changed():
    """A task policy of an installation may add a callback to each task, or a tag to its executor's configuration."""
    pattern = DrainOperator(**SAME, task_id="pattern", topic="", params={"size": Param(1)})
    first, second = (copy_task(pattern, **copy.copy(own)) for own in OWN[:2])

    for name, value in vars(first).items():
        if type(value).__hash__ is None or name == "params":
            assert value is not vars(second)[name], name
            assert value is not vars(pattern)[name], name


def test_a_copy_converts_its_values_as_a_new_task_does():
    pattern = DrainOperator(**SAME, task_id="pattern", topic="")

    assert (
        copy_task(pattern, retry_delay=90).retry_delay
        == DrainOperator(**SAME | {"retry_delay": 90}, task_id="other", topic="").retry_delay
    )

"""Run a DAG of Airflow to its end in this process, and answer what it asks people, as its pages do.

``python -m pipestream_testing.answered_run DAG_ID RUNS_AS_JSON`` runs it once for each pair of answer and form,
and prints a line of JSON for each: the run's state, its tasks' states, what was asked, what the tasks returned.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

PERSON = "olga"
"""Who answers."""


def main() -> None:
    from airflow.utils.cli import get_bagged_dag

    dag_id, runs = sys.argv[1:]
    for answer, form in json.loads(runs):
        # A test run keeps its form in the DAG, where the next one would find it.
        dag = get_bagged_dag(bundle_names=None, dag_id=dag_id)
        asked: list[dict[str, Any]] = []
        ended = threading.Event()
        person = threading.Thread(target=_answer, args=(dag_id, answer, asked, ended), daemon=True)
        person.start()
        run = dag.test(run_conf=form)
        ended.set()
        person.join()
        print("\nRESULT " + json.dumps({"state": str(run.state), "asked": asked, **_outcome(dag_id, run.run_id)}))


def _answer(dag_id: str, answer: str, asked: list[dict[str, Any]], ended: threading.Event) -> None:
    """Wait until a task of a DAG asks for an answer, and give it, by the function that Airflow's API calls."""
    from airflow.api_fastapi.core_api.datamodels.hitl import UpdateHITLDetailPayload
    from airflow.api_fastapi.core_api.routes.public.hitl import update_hitl_detail
    from airflow.models.hitl import HITLDetail
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    person = SimpleNamespace(get_id=lambda: PERSON, get_name=lambda: PERSON)
    waiting = (
        select(HITLDetail)
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.state == "awaiting_input")
    )
    while not ended.is_set():
        with create_session() as session:
            for detail in session.scalars(waiting).unique().all():
                asked.append({"subject": detail.subject, "body": detail.body, "defaults": detail.defaults})
                task = detail.task_instance
                payload = UpdateHITLDetailPayload(chosen_options=[answer], params_input={})
                update_hitl_detail(dag_id, task.run_id, task.task_id, payload, person, session)
        time.sleep(0.3)


def _outcome(dag_id: str, run_id: str) -> dict[str, Any]:
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        tasks = session.scalars(select(TaskInstance).where(TaskInstance.run_id == run_id)).all()
        values = session.scalars(
            select(XComModel).where(XComModel.run_id == run_id, XComModel.key == "return_value")
        ).all()
        return {
            "tasks": {task.task_id: str(task.state) for task in tasks if task.dag_id == dag_id},
            "returned": {
                each.task_id: json.loads(each.value) if isinstance(each.value, str) else each.value
                for each in values
                if each.dag_id == dag_id and each.task_id != "approve"
            },
        }


if __name__ == "__main__":
    main()

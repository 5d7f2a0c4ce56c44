"""The DAG of one graph for what cannot be undone: a dry run, an approval by a person, the action, a report.

It is a DAG of its own for each graph, so that Airflow's rights on DAGs decide who may ask and who may answer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG
from airflow.sdk.definitions.param import ParamsDict

from pipestream.graph.order import drain_order
from pipestream.ids import approval_dag_id
from pipestream_airflow.approval_form import approval_form
from pipestream_airflow.approval_operators import (
    APPROVE,
    DRY_RUN,
    PERFORM,
    REPORT,
    AnsweredApprovalOperator,
    ApprovalDryRunOperator,
    ApprovalReportOperator,
    ApprovedActionOperator,
)
from pipestream_airflow.graph_dag import START_DATE, TASK_DEFAULTS, account_tags, owner_of

if TYPE_CHECKING:
    from pathlib import Path

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


def build_approval_dag(graph: Graph, file: Path, settings: Settings) -> DAG:
    """Return the DAG that purges or replays a graph's dead letters, or moves its heads, once somebody has approved it.

    It only runs when a person starts it. Without an answer in time the request is rejected.
    """
    name = graph.name or graph.graph_id
    dag = DAG(
        approval_dag_id(graph.graph_id),
        description=f"Asks for approval, then purges or replays dead letters of {name}, or moves its heads",
        schedule=None,
        start_date=START_DATE,
        catchup=False,
        tags=sorted({"pipestream", "approval", f"cluster:{graph.cluster_id}", *account_tags(graph)}),
        default_args=TASK_DEFAULTS | {"owner": owner_of(graph)},
    )
    dry_run = ApprovalDryRunOperator(dag=dag, task_id=DRY_RUN, graph_file=str(file))
    approve = AnsweredApprovalOperator(
        dag=dag,
        task_id=APPROVE,
        subject=f"{{{{ ti.xcom_pull(task_ids='{DRY_RUN}')['subject'] }}}}",
        body=f"{{{{ ti.xcom_pull(task_ids='{DRY_RUN}')['body'] }}}}",
        defaults=AnsweredApprovalOperator.REJECT,
        response_timeout=timedelta(hours=settings.approval_wait_hours),
    )
    perform = ApprovedActionOperator(
        dag=dag, task_id=PERFORM, graph_file=str(file), consul_conn_id=settings.consul_conn_id
    )
    # A teardown: it runs after a rejection and after a failure, and does not decide whether the run has failed.
    report = ApprovalReportOperator(dag=dag, task_id=REPORT).as_teardown()
    dry_run >> approve >> perform >> report
    report.set_upstream([dry_run, approve])
    dag.params = ParamsDict(approval_form(sorted({step.topic for step in drain_order(graph, 1)})))
    return dag

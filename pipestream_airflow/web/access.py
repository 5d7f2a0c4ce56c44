"""Who may do what: Airflow's own users and roles, as for the DAG of a pipeline's graph.

A route that reads asks for the right to see the DAG; one that changes something, for the right to edit it (to delete
it, where that is the change), and the change is entered in Airflow's audit log. The DAG follows from the pipeline in
the path. It is never a parameter of the request: whoever may edit one DAG could name it in a call that changes another
one's graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path, Request, params

from pipestream.ids import graph_dag_id

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod

PipelineId = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,79}$", description="The id of a pipeline: its graph's id.")
]


class Access:
    """A dependency that refuses users who may not do something with the DAG of the pipeline in the path."""

    def __init__(self, method: ResourceMethod) -> None:
        self.method = method

    def __call__(self, request: Request, user: GetUserDep) -> None:
        pipeline_id = request.path_params.get("pipeline_id")
        if not is_allowed(self.method, user, [pipeline_id]):
            what = f"the DAG of pipeline {pipeline_id}" if pipeline_id else "DAGs"
            verb = {"GET": "see", "DELETE": "delete"}.get(self.method, "edit")
            raise HTTPException(403, f"you may not {verb} {what}; ask an administrator of Airflow for the right")


READS: list[params.Depends] = [Depends(Access("GET"))]
"""For a route that changes nothing."""
TRIES: list[params.Depends] = [Depends(Access("PUT"))]
"""For a route that changes nothing, but runs what the caller sends: it looks up modules, evaluates conditions."""


def writes(event: str, method: ResourceMethod = "PUT") -> list[params.Depends]:
    """Return the dependencies of a route that changes something.

    :param event: what Airflow's audit log calls it.
    :param method: the right to the DAG that it needs.
    """
    return [Depends(Access(method)), Depends(action_logging(event))]


def is_allowed(method: ResourceMethod, user: Any, pipeline_ids: Iterable[str | None]) -> bool:
    """Tell whether a user may do something with the DAGs of all these pipelines; None stands for any DAG."""
    return not _refused(method, user, pipeline_ids)


def visible(user: Any, pipeline_ids: Iterable[str]) -> set[str]:
    """Return those of some pipelines that a user may see. It asks Airflow's database, so call it in a thread."""
    wanted = set(pipeline_ids)
    return wanted - _refused("GET", user, wanted)


def _refused(method: ResourceMethod, user: Any, pipeline_ids: Iterable[str | None]) -> set[str | None]:
    manager = get_auth_manager()
    dag_ids = {pipeline_id: graph_dag_id(pipeline_id) if pipeline_id else None for pipeline_id in pipeline_ids}
    named = [dag_id for dag_id in dag_ids.values() if dag_id]
    teams = DagModel.get_dag_id_to_team_name_mapping(named) if named else {}
    return {
        pipeline_id
        for pipeline_id, dag_id in dag_ids.items()
        if not manager.is_authorized_dag(
            method=method, details=DagDetails(id=dag_id, team_name=teams.get(dag_id or "")), user=user
        )
    }

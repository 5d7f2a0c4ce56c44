"""Airflow's side of Pipestream: DAGs from graphs, and the operators that drain topics.

A DAG file is three lines::

    from pipestream_airflow import build_dags

    globals().update(build_dags("graphs"))

Names are imported when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipestream.extras import needs_extra

if TYPE_CHECKING:
    from pipestream_airflow.assets import complete_hours_asset
    from pipestream_airflow.dag_factory import build_approval_dags, build_dags, build_upkeep_dag, refuse_broken_graphs
    from pipestream_airflow.drain_operator import DrainOperator
    from pipestream_airflow.ingest_operator import IngestOperator
    from pipestream_airflow.live_operator import LiveServerOperator
    from pipestream_airflow.upkeep_operator import ExpireOperator, UpkeepOperator

__all__ = [
    "DrainOperator",
    "ExpireOperator",
    "IngestOperator",
    "LiveServerOperator",
    "UpkeepOperator",
    "build_approval_dags",
    "build_dags",
    "build_upkeep_dag",
    "complete_hours_asset",
    "refuse_broken_graphs",
]

_MODULES = {
    "DrainOperator": "drain_operator",
    "ExpireOperator": "upkeep_operator",
    "IngestOperator": "ingest_operator",
    "LiveServerOperator": "live_operator",
    "UpkeepOperator": "upkeep_operator",
    "build_approval_dags": "dag_factory",
    "build_dags": "dag_factory",
    "build_upkeep_dag": "dag_factory",
    "complete_hours_asset": "assets",
    "refuse_broken_graphs": "dag_factory",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("airflow"):
        return getattr(import_module(f"{__name__}.{module}"), name)

"""One Airflow DAG per graph in ``graphs/``. To add a DAG, add a graph file there."""

from __future__ import annotations

from pathlib import Path

from pipestream_airflow.dag_factory import build_dags

for dag in build_dags(Path(__file__).parent / "graphs"):
    globals()[dag.dag_id] = dag

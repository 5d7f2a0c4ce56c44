"""One Airflow DAG per graph in ``graphs/``. To add a DAG, add a graph file there."""

from pipestream_airflow import build_dags

globals().update(build_dags("graphs"))

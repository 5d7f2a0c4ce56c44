"""One DAG per graph in ``graphs/`` that asks for approval before it purges, replays many, or moves heads."""

from pipestream_airflow import build_approval_dags

globals().update(build_approval_dags("graphs"))

"""The weekly upkeep of the ledger, which all graphs share."""

from __future__ import annotations

from pipestream_airflow.dag_factory import build_upkeep_dag

dag = build_upkeep_dag()

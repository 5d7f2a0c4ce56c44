"""The daily upkeep of ledger and documents, which all graphs share."""

from pipestream_airflow import build_upkeep_dag

dag = build_upkeep_dag()

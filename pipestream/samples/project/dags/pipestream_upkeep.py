"""The weekly upkeep of the ledger, which all graphs share."""

from pipestream_airflow import build_upkeep_dag

dag = build_upkeep_dag()

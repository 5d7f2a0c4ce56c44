"""Airflow's side of Pipestream: DAGs from graphs, and the operators that drain topics."""

"""Airflow's side of Pipestream: DAGs from graphs, and the operators that drain topics.

File names here are unlike any installed module's, so that nothing is shadowed should Airflow scan them.
"""

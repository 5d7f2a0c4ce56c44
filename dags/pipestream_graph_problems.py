"""Has no DAG: shows what is wrong with the files in ``graphs/`` as an import error in Airflow.

It is a file of its own because Airflow takes down every DAG of a file that fails, and one broken graph must not stop
the others.
"""

from pipestream_airflow import refuse_broken_graphs

refuse_broken_graphs("graphs")

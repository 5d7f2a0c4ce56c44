"""Has no DAG: shows what is wrong with the files in ``graphs/`` as an import error in Airflow.

It is a file of its own because Airflow takes down every DAG of a file that fails, and one broken graph must
not stop the others.
"""

from __future__ import annotations

from pathlib import Path

from pipestream_airflow.dag_factory import refuse_broken_graphs

refuse_broken_graphs(Path(__file__).parent / "graphs")

"""What every process pays that parses DAGs or runs a task."""

from __future__ import annotations

import subprocess
import sys


def test_parsing_a_dag_does_not_import_pyspark():
    code = "import sys, pipestream_airflow.dag_factory; print('pyspark' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"

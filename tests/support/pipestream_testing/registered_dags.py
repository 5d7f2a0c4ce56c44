"""Register the DAGs of graph files in Airflow's database, as its DAG processor would, without a running one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pipestream.local import Stack
from pipestream.settings import Settings
from pipestream_testing.settings_file import write_settings

_DAG_FILE = """from pipestream_airflow import build_dags

globals().update(build_dags({graphs!r}))
"""


def register_dags(stack: Stack, settings: Settings, folder: Path) -> None:
    """Let Airflow know the DAGs of the settings' graphs folder."""
    dags = folder / "dags"
    dags.mkdir()
    (dags / "graphs.py").write_text(_DAG_FILE.format(graphs=str(settings.graphs_folder)))
    config = folder / "dags.toml"
    write_settings(config, settings)
    environment = {
        **stack.prepare_airflow(),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "PIPESTREAM_CONFIG": str(config),
    }
    command = [sys.executable, "-m", "airflow", "dags", "reserialize"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

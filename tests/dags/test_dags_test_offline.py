"""``airflow dags test`` as a CI job runs it: a new metadata database, and connections from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.topics.admin import TopicAdmin
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.airflow]

GRAPH = """
graph: NAME
cluster: NAME
schedule: on_arrival
datasources:
  - {id: NAME, account: acme, entry: first}
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:pass_on"}
edges:
  - {from: first, to: second}
"""


@pytest.fixture
def environment(settings, unique, dags_folder, tmp_path) -> dict[str, str]:
    """A new home of Airflow with SQLite, the DAG of one graph, leases in a folder, and topics made on demand."""
    (dags_folder / "graphs" / "graph.yaml").write_text(GRAPH.replace("NAME", unique))
    here = settings.model_copy(update={"leases": "file", "auto_create": True})
    write_settings(tmp_path / "settings.toml", here)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return {
        **kept,
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(Path(__file__).resolve().parents[2] / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "400",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "PIPESTREAM_CONFIG": str(tmp_path / "settings.toml"),
    }


def airflow(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.timeout(1800)
def test_a_dag_is_tested_from_nothing_and_one_check_skips_all_that_is_idle(environment, settings, unique):
    migrated, said = airflow(environment, "db", "migrate")
    assert migrated == 0, said[-4_000:]

    tested, said = airflow(environment, "dags", "test", f"pipestream_{unique}")

    assert tested == 0, said[-8_000:]
    assert f"intake.{unique}" in TopicAdmin(settings).existing(), "auto_create made the topics"
    assert f"nothing to drain in intake.{unique}" in said
    assert "task_id=check" in said
    assert "starting task_id=drain" not in said, "a task of a drain was started"
    assert "starting task_id=report" not in said

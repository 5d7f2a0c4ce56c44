"""The workflow of docs/how-to/test-in-ci.md, line by line, in a copy of the project's DAG files on real servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]

# Minutes of Airflow's start again and again. The default run tests DAGs from the command line elsewhere.
pytestmark = [pytest.mark.stack, pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]


def read_job() -> dict[str, Any]:
    page = (REPOSITORY / "docs" / "how-to" / "test-in-ci.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    job: dict[str, Any] = yaml.safe_load(found[1])["jobs"]["dags"]
    return job


@pytest.fixture
def workspace(tmp_path: Path, unique: str) -> Path:
    """A checkout with the DAG files and the sample graph. Its names are the test's own: others share the broker."""
    shutil.copytree(REPOSITORY / "dags", tmp_path / "work" / "dags")
    sample = tmp_path / "work" / "dags" / "graphs" / "sample.yaml"
    sample.write_text(_rename(sample.read_text(), unique).replace("cluster: main", f"cluster: {unique}"))
    return tmp_path / "work"


def _rename(text: str, unique: str) -> str:
    """Give the sample graph, its datasource and their DAGs another name; its folder of samples keeps its own."""
    return re.sub(r"(?<![a-z])sample(?=$|[ \n-])(?!\.yaml)", unique, text)


@pytest.mark.timeout(1800)
def test_every_command_of_the_workflow_runs_in_its_order(workspace, settings, unique, spark_connect):
    assert spark_connect.pid
    job = read_job()
    addresses = {
        "PIPESTREAM_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "PIPESTREAM_POSTGRES_DSN": settings.postgres_dsn.get_secret_value(),
        # A spark-submit for each of the seven topics takes minutes; other tests have them.
        "PIPESTREAM_SPARK_CONNECT_URL": settings.spark_connect_url,
        "PIPESTREAM_SPARK_CONNECT_TOKEN": settings.spark_connect_token.get_secret_value(),
    }
    given = {name: value.replace("${{ github.workspace }}", str(workspace)) for name, value in job["env"].items()}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW_", "PIPESTREAM_"))}
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    # A machine with much else to do may take longer over an import than Airflow allows for.
    environment = {**kept, **given, **addresses, "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "400"}
    commands = [step["run"] for step in job["steps"] if "run" in step]
    said = {}

    for command in commands:
        if command == "make setup" or "GITHUB_PATH" in command:  # what is to be tested is installed already
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", _rename(command, unique)],
            cwd=workspace,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-6_000:]}"
        said[command] = done.stdout

    dry = next(text for command, text in said.items() if "dry_run" in command)
    assert re.search(rf"intake\.{unique}-files: [1-9]\d* offsets", dry), dry[-6_000:]
    real = said["airflow dags test pipestream_sample"]
    assert re.search(r"[1-9]\d* documents in", real), real[-6_000:]

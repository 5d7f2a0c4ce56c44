"""``pipestream airflow`` on a real stack: Airflow's own command line, with the stack's environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.airflow]


@pytest.fixture
def airflow(stack, tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipestream.cli.main", "airflow", *arguments]
        environment = {
            **os.environ,
            "PIPESTREAM_STACK_FOLDER": str(stack.spec.folder),
            # A machine with much else to do may take longer over an import than Airflow allows for.
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "400",
        }
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_airflow_is_asked_with_the_stacks_home_and_its_exit_code_is_passed_on(airflow, stack):
    right = airflow("--", "config", "get-value", "--", "database", "sql_alchemy_conn")
    wrong = airflow("connections", "get", "nobody")

    assert right.returncode == 0, right.stderr
    assert f":{stack.site().ports.postgres}/airflow" in right.stdout
    assert (wrong.returncode, "Connection not found" in wrong.stderr) == (1, True)


def test_airflow_sees_the_dags_of_the_project(airflow):
    ran = airflow("dags", "list", "--local", "--output", "plain")

    assert ran.returncode == 0, ran.stderr
    assert "pipestream_sample" in ran.stdout

"""The Airflow of the local stack: prepared without daemons, and with all of them."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from pipestream.local import Stack, load_spec

pytestmark = [pytest.mark.stack, pytest.mark.airflow]


def _airflow(environment, *arguments):
    done = subprocess.run(
        ["airflow", *arguments], env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_airflow_commands_use_the_stack_and_this_checkout(airflow_env, stack):
    repository = Path(__file__).resolve().parents[2]

    connection = json.loads(_airflow(airflow_env, "connections", "get", "spark_default", "-o", "json"))[0]

    assert connection["host"] == stack.settings().spark_master
    assert airflow_env["AIRFLOW__CORE__DAGS_FOLDER"] == str(repository / "dags")
    assert Path(airflow_env["AIRFLOW_HOME"]).is_relative_to(stack.spec.folder)
    assert airflow_env["PIPESTREAM_CONFIG"] == str(stack.config_file)


def test_preparing_airflow_again_does_not_migrate_again(airflow_env, stack):
    stamp = stack.spec.folder / "airflow" / "migrated"
    before = stamp.stat().st_mtime_ns

    again = stack.prepare_airflow()

    assert again["AIRFLOW_HOME"] == airflow_env["AIRFLOW_HOME"]
    assert stamp.stat().st_mtime_ns == before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_airflow_starts_lets_only_the_admin_in_and_leaves_no_process(tmp_path):
    spec = load_spec(profile="embedded", folder=tmp_path / "stack", airflow=True, free_ports=True, durable=False)
    stack = Stack(spec)
    with stack.running():
        states = {server.name: server.pid is not None for server in stack.status()}
        address = next(server.address for server in stack.status() if server.name == "airflow")
        family = psutil.Process(stack.server("airflow").pid).children(recursive=True)
        user, password = stack.airflow_login()

        token = _post(f"{address}/auth/token", {"username": user, "password": password})["access_token"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            _post(f"{address}/auth/token", {"username": user, "password": "wrong"})
        refused.value.close()

    assert states == {"kafka": True, "postgres": True, "airflow": True}
    assert token
    assert refused.value.code == 401
    left = [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert left == []


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)

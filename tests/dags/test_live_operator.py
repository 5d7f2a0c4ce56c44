"""The operator of live DAGs with a real server and without Airflow: health, restarts, and who may serve where."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from pipestream.live.owner import stop_all
from pipestream.live.spec import Place
from pipestream.live.watch import look_at
from pipestream.telemetry.endpoint import TelemetryEndpoint
from pipestream.telemetry.health import Health
from pipestream_airflow import LiveServerOperator
from pipestream_testing.secured_server import SecuredServer
from pipestream_testing.waiting import wait_until

GRAPH_FILE = str(Path(__file__).resolve().parents[2] / "examples" / "live_graph.yaml")


class FakeTask:
    """What Airflow gives a task, and what a person does in Airflow meanwhile."""

    def __init__(self) -> None:
        self.is_paused = threading.Event()
        self.asked = 0
        """How often Airflow was asked whether the DAG is paused."""
        self.error: Exception | None = None
        """What Airflow answers instead."""
        self.pushed: dict[str, str] = {}
        self.started = datetime.now(UTC)

    def context(self) -> dict[str, Any]:
        ti = SimpleNamespace(
            dag_id="live",
            run_id="run-1",
            task_id="tiny",
            try_number=1,
            xcom_push=lambda key, value: self.pushed.update({key: value}),
            get_dag=self.get_dag,
        )
        return {"ti": ti, "dag_run": SimpleNamespace(start_date=self.started)}

    def get_dag(self, _: str) -> SimpleNamespace:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return SimpleNamespace(is_paused=self.is_paused.is_set())


@pytest.fixture
def task() -> FakeTask:
    return FakeTask()


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def make(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LiveServerOperator]]:
    """Makes the operator of a small server."""
    monkeypatch.setenv("PIPESTREAM_LIVE_FOLDER", str(tmp_path / "live"))
    command = [sys.executable, "-m", "pipestream_testing.tiny_server", str(port), str(tmp_path)]

    def build(**changes: Any) -> LiveServerOperator:
        values = {"command": command, "url": f"http://127.0.0.1:{port}", "poll_s": 0.05, "report_s": 0.2, **changes}
        return LiveServerOperator(task_id="tiny", server="tiny", **values)

    yield build
    stop_all(Place(tmp_path / "live"), wait_s=60)


def begins(tmp_path: Path) -> int:
    file = tmp_path / "notes"
    return file.read_text().count("begins") if file.exists() else 0


def in_background(operator: LiveServerOperator, task: FakeTask) -> tuple[threading.Thread, dict[str, Any]]:
    returned: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: returned.update(operator.execute(task.context())))
    thread.start()
    return thread, returned


def test_a_server_that_hangs_is_started_again(make, task, tmp_path, capsys):
    operator = make(unhealthy_s=2.0)
    thread, returned = in_background(operator, task)
    wait_until(lambda: "tiny: healthy" in capsys.readouterr().out, "the server is not healthy", timeout_s=60)

    (tmp_path / "sick").touch()
    wait_until(lambda: begins(tmp_path) >= 2, "it was not started again", timeout_s=60)
    (tmp_path / "sick").unlink()
    wait_until(lambda: look_at(operator.url).is_healthy, "the server is not healthy again", timeout_s=60)
    task.is_paused.set()
    thread.join()

    assert (returned["ended_by"], returned["server"]) == ("pause", "tiny")
    assert returned["starts"] >= 2
    assert task.pushed == {
        "_link_HealthLink": f"{operator.url}/health",
        "_link_MetricsLink": f"{operator.url}/metrics",
    }
    said = capsys.readouterr().out
    assert "tiny hangs" in said
    assert "answers 503 NOT_SERVING" in said


def test_a_server_that_waits_for_something_outside_is_not_started_again(make, task, tmp_path, capsys):
    thread, returned = in_background(make(unhealthy_s=0.5, give_up_s=1.0), task)
    wait_until(lambda: "tiny: healthy" in capsys.readouterr().out, "the server is not healthy", timeout_s=60)

    (tmp_path / "waiting").touch()
    said = "answers 503 NOT_SERVING: the broker is away"
    wait_until(lambda: said in capsys.readouterr().out, "it does not say why", timeout_s=60)
    looks = task.asked
    # With a pause of 0.05 s between them, forty looks take longer than either patience.
    wait_until(lambda: task.asked >= looks + 40 or not thread.is_alive(), "it is not looked at", timeout_s=60)

    (tmp_path / "waiting").unlink()
    wait_until(lambda: "tiny: healthy" in capsys.readouterr().out, "the server is not healthy", timeout_s=60)
    task.is_paused.set()
    thread.join()

    assert (returned["starts"], begins(tmp_path)) == (1, 1)


def test_a_server_that_never_becomes_healthy_fails_the_task_and_is_stopped(make, task, tmp_path):
    (tmp_path / "broken").touch()

    with pytest.raises(AirflowException, match="tiny has not been healthy for"):
        make(give_up_s=1.0).execute(task.context())

    assert Place(tmp_path / "live").sockets() == []


def test_an_old_run_hands_the_server_over_and_the_next_one_adopts_it(make, task, tmp_path):
    first = make(max_age=timedelta(seconds=0.1)).execute(task.context())
    noted = (tmp_path / "notes").read_text()

    second = make(max_age=timedelta(seconds=0.1)).execute(task.context())

    assert (first["ended_by"], second["ended_by"]) == ("age", "age")
    assert (tmp_path / "notes").read_text() == noted, "it was started again"


def test_a_server_runs_on_while_airflow_does_not_answer(make, task, tmp_path, capsys):
    task.error = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
    thread, returned = in_background(make(), task)
    wait_until(lambda: task.asked >= 3 and begins(tmp_path), "Airflow was not asked again", timeout_s=60)

    task.is_paused.set()
    task.error = None
    thread.join()

    assert (returned["ended_by"], begins(tmp_path)) == ("pause", 1)
    assert capsys.readouterr().out.count("Airflow does not say whether the DAG is paused") == 1


def test_a_task_that_fails_for_another_reason_leaves_its_server_to_the_next_try(make, task, tmp_path):
    task.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        make().execute(task.context())
    task.error = None

    returned = make(max_age=timedelta(seconds=0.1)).execute(task.context())

    assert (returned["ended_by"], begins(tmp_path)) == ("age", 1)


def test_no_server_is_started_where_another_answers(make, task, port, tmp_path):
    with (
        TelemetryEndpoint("127.0.0.1", port, lambda: Health(True)),
        pytest.raises(AirflowException, match=r"another server answers .* `live: \{tiny: external\}`"),
    ):
        make().execute(task.context())

    assert begins(tmp_path) == 0


def test_a_server_that_runs_elsewhere_is_only_watched(make, task, port, tmp_path):
    with TelemetryEndpoint("127.0.0.1", port, lambda: Health(True)):
        returned = make(external=True, max_age=timedelta(seconds=0.1)).execute(task.context())

    assert (returned["healthy"], returned["ended_by"], returned["starts"]) == (True, "age", 0)
    assert not (tmp_path / "live").exists()


@pytest.mark.parametrize("connection", [None, '{"conn_type": "http"}'])
def test_a_healthy_server_is_watched_without_a_usable_connection(make, task, port, monkeypatch, capsys, connection):
    monkeypatch.setenv("PIPESTREAM_KAFKA_CONN_ID", "brokers")
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_BROKERS", connection)
    changes = {"external": True, "graph_file": GRAPH_FILE, "max_age": timedelta(seconds=0.1)}

    with TelemetryEndpoint("127.0.0.1", port, lambda: Health(True)):
        returned = make(**changes).execute(task.context())

    assert (returned["healthy"], returned["ended_by"]) == (True, "age")
    said = capsys.readouterr().out
    assert "tiny: healthy" in said
    assert "lag unknown: " in said
    assert "brokers" in said.partition("lag unknown: ")[2]


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_with_mutual_tls_is_watched_with_the_certificates_of_the_clients(make, task, tmp_path, monkeypatch):
    with SecuredServer(tmp_path, Healthy) as server:
        monkeypatch.setenv("PIPESTREAM_GRPC_CA_FILE", str(server.authority.certificate))
        monkeypatch.setenv("PIPESTREAM_GRPC_CLIENT_CERT_FILE", str(server.client.certificate))
        monkeypatch.setenv("PIPESTREAM_GRPC_CLIENT_KEY_FILE", str(server.client.key))

        returned = make(external=True, url=server.url, max_age=timedelta(seconds=0.1)).execute(task.context())

    assert (returned["healthy"], returned["ended_by"]) == (True, "age")


def test_a_server_that_runs_elsewhere_and_is_not_healthy_fails_the_task(make, task):
    with pytest.raises(AirflowException, match="does not answer"):
        make(external=True, unhealthy_s=0.5).execute(task.context())


def test_an_address_that_cannot_be_used_fails_the_task_for_good(task, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_LIVE_ENGINE_URL", "nowhere")

    with pytest.raises(AirflowFailException, match="live_engine_url must be http://HOST:PORT"):
        LiveServerOperator(task_id="engine", server="engine").execute(task.context())

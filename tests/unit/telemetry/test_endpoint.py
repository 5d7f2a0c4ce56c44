from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from pipestream.errors import SettingsInvalid
from pipestream.telemetry.endpoint import SHARED_FOLDER_VARIABLE, TelemetryEndpoint
from pipestream.telemetry.health import Health
from pipestream.telemetry.metrics import DLQ_PUBLISHED


def get(endpoint, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{endpoint.address}{path}", timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture
def states():
    return [Health(True, {"streams": 3})]


@pytest.fixture
def endpoint(states):
    with TelemetryEndpoint("127.0.0.1", 0, lambda: states[-1]) as running:
        yield running


def test_metrics_are_served_in_prometheus_format(endpoint):
    DLQ_PUBLISHED.labels("g", "n", "Boom").inc(2)

    status, content_type, text = get(endpoint, "/metrics")

    assert status == 200
    assert content_type.startswith("text/plain")
    assert 'pipestream_engine_dlq_published_total{error_type="Boom",graph="g",node="n"} 2.0' in text


def test_health_says_whether_the_server_takes_work(endpoint, states):
    assert get(endpoint, "/health")[::2] == (
        200,
        json.dumps({"status": "SERVING", "alive": True, "streams": 3}),
    )

    states.append(Health(False, {"reason": "stopping"}))

    status, content_type, text = get(endpoint, "/health")
    assert (status, content_type) == (503, "application/json")
    assert json.loads(text) == {"status": "NOT_SERVING", "alive": True, "reason": "stopping"}


def test_only_a_server_that_hangs_is_not_live(endpoint, states):
    states.append(Health(False, {"problems": ["the broker is away"]}))
    away = get(endpoint, "/health/live")
    states.append(Health(False, is_alive=False))
    hanging = get(endpoint, "/health/live")

    assert (away[0], json.loads(away[2])["alive"]) == (200, True)
    assert (hanging[0], json.loads(hanging[2])["alive"]) == (503, False)


def test_another_path_says_what_is_there(endpoint):
    status, _, text = get(endpoint, "/nothing")

    assert status == 404
    assert "/metrics" in text


def test_a_port_that_is_taken_is_an_error(endpoint):
    port = int(endpoint.address.rpartition(":")[2])

    with pytest.raises(SettingsInvalid, match=f"cannot answer /metrics and /health on 127.0.0.1:{port}: .*in use"):
        TelemetryEndpoint("127.0.0.1", port, lambda: Health(True))


def test_processes_that_share_a_folder_report_the_sum(tmp_path):
    count = "from pipestream.telemetry.metrics import UPLOADS\nUPLOADS.labels('files', 'stored').inc()"
    report = "from pipestream.telemetry.endpoint import metrics_page\nprint(metrics_page()[0].decode())"
    environment = {**os.environ, SHARED_FOLDER_VARIABLE: str(tmp_path)}

    def run(script):
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    run(count)
    run(count)

    assert 'pipestream_repository_uploads_total{datasource="files",outcome="stored"} 2.0' in run(report)

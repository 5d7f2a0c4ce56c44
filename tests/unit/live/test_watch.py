from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from pipestream.cli.main import app
from pipestream.errors import SettingsInvalid
from pipestream.live.servers import server_command, server_environment, server_url
from pipestream.live.tail import MOST_LINES, LogTail
from pipestream.live.watch import Sighting, look_at
from pipestream.rpc.security import ChannelSecurity
from pipestream.settings import load_settings
from pipestream_testing.certificates import Authority
from pipestream_testing.secured_server import SecuredServer

METRICS = """
pipestream_messages_processed_total{queue="a",status="success"} 40.0
pipestream_messages_processed_total{queue="b",status="success"} 2.0
pipestream_messages_failed_total{queue="b",reason="X"} 3.0
pipestream_grpc_calls_total{method="IntakeHandoff",code="OK"} 7.0
"""


class Told(BaseHTTPRequestHandler):
    """Answers as the test says."""

    health = (200, {"status": "SERVING"})
    metrics = METRICS

    def do_GET(self) -> None:
        status, body = type(self).health if self.path == "/health" else (200, None)
        text = json.dumps(body) if body is not None else type(self).metrics
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def told() -> Iterator[tuple[type[Told], str]]:
    class Mine(Told):
        pass

    with HTTPServer(("127.0.0.1", 0), Mine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Mine, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_sighting_sums_the_counters_over_their_labels(told):
    seen = look_at(told[1])

    assert (seen.is_healthy, seen.processed, seen.failed, seen.calls) == (True, 42.0, 3.0, 7.0)


def test_a_server_that_says_that_it_does_not_serve_is_not_healthy(told):
    handler, url = told
    handler.health = (503, {"status": "NOT_SERVING"})

    seen = look_at(url)

    assert (seen.is_healthy, seen.is_alive) == (False, False)
    assert seen.problem == f"{url}/health answers 503 NOT_SERVING"


def test_a_server_that_waits_for_something_outside_is_alive_and_says_why_it_is_not_healthy(told):
    handler, url = told
    handler.health = (503, {"status": "NOT_SERVING", "alive": True, "problems": ["Kafka: away", "it holds no slot"]})

    seen = look_at(url)

    assert (seen.is_healthy, seen.is_alive) == (False, True)
    assert seen.problem == f"{url}/health answers 503 NOT_SERVING: Kafka: away; it holds no slot"


def test_metrics_that_cannot_be_read_are_a_problem_not_a_crash(told):
    handler, url = told
    handler.metrics = "}{ nonsense"

    assert not look_at(url).is_healthy


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"nonsense\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", id="a cut answer"),
        pytest.param(b"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\n{", id="a cut refusal"),
    ],
)
def test_what_a_server_breaks_off_is_a_problem_not_a_crash(answer):
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        seen = look_at(f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread.join()

    assert not seen.is_healthy


def test_a_server_that_does_not_answer_is_not_healthy():
    assert "does not answer" in look_at("http://127.0.0.1:9", timeout_s=1).problem


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (None, "healthy, 30 streams processed, 1 failed"),
        (Sighting(0.0, True, processed=10), "healthy, 30 streams processed (2.0/s), 1 failed"),
        (Sighting(0.0, True, processed=100), "healthy, 30 streams processed (3.0/s), 1 failed"),
    ],
    ids=["alone", "with a rate", "after a restart"],
)
def test_a_sighting_is_described_with_rates(before, said):
    assert Sighting(10.0, True, processed=30, failed=1).describe(before) == said


def test_a_tail_returns_complete_lines_once(tmp_path):
    file = tmp_path / "log"
    file.write_text("old\n")
    tail = LogTail(file)

    with file.open("a") as log:
        log.write("one\ntwo\nhal")
        log.flush()
        assert tail.read() == ["one", "two"]
        log.write("f\n")
    assert tail.read() == ["half"]
    assert tail.read() == []


def test_a_tail_leaves_out_the_first_lines_of_too_many(tmp_path):
    file = tmp_path / "log"
    tail = LogTail(file)
    assert tail.read() == []

    file.write_text("".join(f"{number}\n" for number in range(MOST_LINES + 5)))

    said = tail.read()
    assert said[:2] == ["(5 lines left out)", "5"]
    assert len(said) == MOST_LINES + 1


def test_a_tail_begins_again_when_the_file_does(tmp_path):
    file = tmp_path / "log"
    file.write_text("a long line\n")
    tail = LogTail(file)

    file.write_text("new\n")

    assert tail.read() == ["new"]


def test_the_engine_is_started_with_its_address_and_the_port_of_its_telemetry():
    settings = load_settings(live_engine_url="http://127.0.0.1:1234/", live_engine_address="0.0.0.0:77")

    assert server_url("engine", settings) == "http://127.0.0.1:1234"
    options = ["--host", "0.0.0.0", "--port", "77", "--metrics-port", "1234"]
    assert server_command("engine", settings)[-8:] == ["engine", "serve", *options]


@pytest.mark.parametrize("server", ["engine", "repository", "sidecar"])
def test_the_command_of_a_server_has_options_that_exist(server):
    *program, group, name = server_command(server, load_settings())[:5]
    options = server_command(server, load_settings())[5:]

    command = typer.main.get_command(app).commands[group].commands[name]

    assert program == [sys.executable, "-m", "pipestream.cli.main"]
    assert set(options[::2]) <= {each for parameter in command.params for each in parameter.opts}
    assert urlsplit(server_url(server, load_settings())).netloc.endswith(options[-1])


def test_the_streaming_drain_is_submitted_to_the_spark_of_the_settings():
    program, *arguments = server_command("stream", load_settings(spark_master="spark://somewhere:7077"))

    assert Path(program).name == "spark-submit"
    assert arguments[:4] == ["--master", "spark://somewhere:7077", "--deploy-mode", "client"]
    assert Path(arguments[4]).parts[-2:] == ("pipestream_spark", "stream.py")
    assert arguments[5:] == ["--telemetry-port", "9472"]
    assert server_environment("stream")["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("url", ["127.0.0.1:9465", "http://engine", "ftp://engine:1"])
def test_an_address_without_host_or_port_is_refused(url):
    with pytest.raises(SettingsInvalid, match="live_engine_url must be http://HOST:PORT"):
        server_url("engine", load_settings(live_engine_url=url))


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredServer]:
    with SecuredServer(tmp_path, Told) as server:
        yield server


def test_a_server_with_mutual_tls_is_reached_as_the_clients_reach_it(secured):
    client = ChannelSecurity(secured.authority.certificate, secured.client.certificate, secured.client.key)
    stranger = ChannelSecurity(secured.authority.certificate)

    seen = look_at(secured.url, client.https_context())

    assert (seen.is_healthy, seen.processed) == (True, 42.0), seen.problem
    assert not look_at(secured.url, stranger.https_context()).is_healthy


def test_a_certificate_that_cannot_be_used_is_told_by_its_setting(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")

    with pytest.raises(SettingsInvalid, match="grpc_ca_file"):
        ChannelSecurity(tmp_path / "ca.pem").https_context()


@pytest.mark.parametrize(
    ("server", "url", "tls"),
    [
        ("repository", "http://127.0.0.1:1", True),
        ("repository", "https://127.0.0.1:1", False),
        ("engine", "https://127.0.0.1:1", True),
    ],
)
def test_a_server_is_not_started_where_its_health_could_not_be_asked(server, url, tls, tmp_path):
    pair = Authority(tmp_path, "ca").issue("server")
    files = {"grpc_tls_cert_file": pair.certificate, "grpc_tls_key_file": pair.key} if tls else {}

    with pytest.raises(SettingsInvalid, match=f"live_{server}_url must begin with http"):
        server_command(server, load_settings(**{f"live_{server}_url": url}, **files))

"""What a run tells a Pushgateway, and what it never says."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pipestream.settings import Settings
from pipestream.telemetry.push import push_run
from pipestream.urls import printable_url, split_login


@pytest.fixture
def gateway():
    """A server on a free port that keeps the requests."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers.get("Authorization"), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("scheme", ["http://", ""])
@pytest.mark.parametrize(("login", "sent"), [("", None), ("ann:p%40ss@", b"ann:p@ss")])
def test_a_run_is_pushed_with_the_login_of_the_address(gateway, scheme, login, sent):
    address, received = gateway

    push_run(Settings(metrics_push_url=f"{scheme}{login}{address}"), "g", "intake.files", {"records": 3}, {"a-b": 2})

    ((path, authorization, body),) = received
    assert path == "/metrics/job/pipestream/graph/g/topic/intake.files"
    assert authorization == (f"Basic {base64.b64encode(sent).decode()}" if sent else None)
    assert b"pipestream_last_run_records 3.0" in body


@pytest.mark.parametrize(
    "url", ["http://ann:secret@127.0.0.1:1", "http://ann:secret@no host", "http://ann:se@secret@[x"]
)
def test_a_push_that_fails_fails_no_run_and_shows_no_password(url, caplog):
    push_run(Settings(metrics_push_url=url), "g", "intake.files", {"records": 3}, {})

    assert "were not taken by" in caplog.text
    assert "secret" not in caplog.text


def test_a_url_is_shown_without_what_may_be_secret():
    assert printable_url("https://ann:secret@host:1/path?token=secret#x") == "https://host:1/path"
    assert printable_url("host:1/path") == "host:1/path"
    assert split_login("http://ann:se@cret@host") == ("ann:se@cret", "http://host")

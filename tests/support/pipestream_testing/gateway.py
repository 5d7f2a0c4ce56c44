"""A gateway for tests: an HTTP server that keeps the progress that it is told, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Gateway:
    """Where reports are sent to, and those that came."""

    url: str = ""
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The path and the body of each report."""
    logins: list[str | None] = field(default_factory=list)
    status: int = 200
    """What it answers."""


@contextmanager
def run_gateway() -> Iterator[Gateway]:
    gateway = Gateway()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            gateway.told.append((self.path, json.loads(body)))
            gateway.logins.append(self.headers["Authorization"])
            self.send_response(gateway.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    gateway.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield gateway
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""The HTTP endpoint of a server next to its own port: ``/metrics`` for Prometheus, ``/health`` for probes."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from pipestream.errors import SettingsInvalid
from pipestream.telemetry.health import LIVE_PATH, Health

log = logging.getLogger(__name__)

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Processes that serve one port together write their metrics into this folder; any of them can then report all."""


def metrics_page(accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of this process, or of all that share its folder, and their content type."""
    registry = REGISTRY
    if SHARED_FOLDER_VARIABLE in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class TelemetryEndpoint:
    """Serves ``/metrics``, ``/health`` and ``/health/live`` in a thread. A context manager."""

    def __init__(self, host: str, port: int, find_health: Callable[[], Health]) -> None:
        """Bind the port; 0 takes a free one.

        :param find_health: called for every request of a server's health; it must answer at once.
        :raises SettingsInvalid: the address cannot be used; for example, the port is taken.
        """

        class Handler(_Handler):
            health = staticmethod(find_health)

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            reason = error.strerror or error
            raise SettingsInvalid(f"cannot answer /metrics and /health on {host}:{port}: {reason}") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="telemetry", daemon=True)

    @property
    def address(self) -> str:
        """Return ``host:port``, with the port that was chosen."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    health: Callable[[], Health]
    # A client that sends nothing must not keep a thread.
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            body, content_type = metrics_page(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, body, content_type)
        elif path in ("/health", LIVE_PATH):
            self._answer_health(path)
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"/metrics and /health are here\n", "text/plain; charset=utf-8")

    def _answer_health(self, path: str) -> None:
        status, values = type(self).health().answer(path)
        self._answer(status, json.dumps(values).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
        log.debug(format, *arguments)

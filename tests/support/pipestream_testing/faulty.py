"""An HTTP proxy that breaks what passes through it: put it in front of an S3 server and tell it how to fail."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_BUSY = b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code><Message>busy on purpose</Message></Error>"
# Connection-level headers are each connection's own; everything else is part of the request that was signed.
_OWN_HEADERS = ("connection", "keep-alive", "transfer-encoding")


class Trouble(Enum):
    """What may become of a request."""

    BUSY = "busy"
    """Answered with 503; the server never saw it."""
    SILENCE = "silence"
    """Never answered; the server never saw it."""
    LOST_ANSWER = "lost answer"
    """The server did as asked, and the connection broke before it could say so."""


@dataclass(slots=True)
class _Rule:
    trouble: Trouble
    times: int
    method: str
    part: str

    def fits(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("", method) and self.part in path


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the library's 5, a client that opens many connections at once would time out over some of them.
    request_queue_size = 128


class FaultyProxy:
    """Passes requests on to ``host:port`` until it is told to make trouble; a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self._rules: list[_Rule] = []
        self._guard = threading.Lock()
        self._made = 0
        self._silence_ends = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self, host, port))
        self._thread = threading.Thread(target=self._server.serve_forever, name="faulty-proxy", daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._silence_ends.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def make(self, trouble: Trouble, *, times: int, method: str = "", part: str = "") -> None:
        """Make trouble for the next requests that fit.

        :param method: only for these, such as PUT.
        :param part: only where the path has this in it.
        """
        with self._guard:
            self._rules.append(_Rule(trouble, times, method, part))

    @property
    def made(self) -> int:
        """How many requests met trouble so far."""
        return self._made

    def choose(self, method: str, path: str) -> Trouble | None:
        """Return what is to happen to a request."""
        with self._guard:
            rule = next((rule for rule in self._rules if rule.fits(method, path)), None)
            if rule is None:
                return None
            rule.times -= 1
            self._made += 1
            return rule.trouble

    def keep_silent(self) -> None:
        """Wait until the proxy ends: by then the client has long given up."""
        self._silence_ends.wait()


def _handler(proxy: FaultyProxy, host: str, port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # a client that was killed, or gave up
                self.close_connection = True

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            trouble = proxy.choose(self.command, self.path)
            if trouble is Trouble.SILENCE:
                proxy.keep_silent()
                self.close_connection = True
            elif trouble is Trouble.BUSY:
                self._answer(503, [("Content-Type", "application/xml")], _BUSY)
            else:
                status, headers, answer = self._ask(body)
                if trouble is Trouble.LOST_ANSWER:
                    self.close_connection = True
                else:
                    self._answer(status, headers, answer)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815 - the library's names

        def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upstream = http.client.HTTPConnection(host, port, timeout=60)
            try:
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in _OWN_HEADERS:
                        upstream.putheader(name, value)
                upstream.endheaders(body)
                response = upstream.getresponse()
                return response.status, response.getheaders(), response.read()
            finally:
                upstream.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            has_length = False
            for name, value in headers:
                if name.lower() not in _OWN_HEADERS:
                    has_length = has_length or name.lower() == "content-length"
                    self.send_header(name, value)
            if not has_length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing: the test says what it saw."""

    return Handler

"""A web server of a test: pages that the test sets, and the requests that came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Pages by path: a body, or status, headers and body."""

    address: str = ""
    pages: dict[str, bytes | tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    requests: list[tuple[str, Message]] = field(default_factory=list)

    def paths(self) -> list[str]:
        """Return what was asked for since the last time, robots.txt left out."""
        found = [path for path, _ in self.requests if path != "/robots.txt"]
        self.requests.clear()
        return found


@contextmanager
def run_site() -> Iterator[Site]:
    """Serve a site on a free port. A page with an ETag is answered with 304 where the client knows it."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.requests.append((self.path, self.headers))
            found = site.pages.get(self.path, (404, {}, b"no such page"))
            status, headers, body = (200, {}, found) if isinstance(found, bytes) else found
            if headers.get("ETag") and self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

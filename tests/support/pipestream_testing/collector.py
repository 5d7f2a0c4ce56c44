"""An OpenTelemetry collector for tests: takes spans over HTTP, and keeps them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """A span as it arrived, its ids in hex."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, str]


@dataclass(slots=True)
class Collector:
    """Where spans are sent to, and those that came."""

    address: str = ""
    spans: list[KeptSpan] = field(default_factory=list)

    def way_from(self, parent_id: str) -> list[str]:
        """Return the names of a trace's spans from a caller on, each below the one before, without those of modules."""
        spans = {each.parent_id: each for each in self.spans if not each.name.startswith("module")}
        way = []
        while parent_id in spans:
            way.append(spans[parent_id].name)
            parent_id = spans[parent_id].span_id
        return way

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [
                    KeptSpan(
                        each.name,
                        each.trace_id.hex(),
                        each.span_id.hex(),
                        each.parent_span_id.hex(),
                        {pair.key: pair.value.string_value for pair in each.attributes},
                    )
                    for each in scope.spans
                ]


@contextmanager
def run_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""An HTTP server with TLS that lets in only clients with a certificate of its CA."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from pipestream_testing.certificates import Authority


class SecuredServer:
    """Serves in a thread, with a CA and certificates of its own. A context manager."""

    def __init__(self, folder: Path, handler: type[BaseHTTPRequestHandler]) -> None:
        self.authority = Authority(folder, "ca")
        self.client = self.authority.issue("client")
        own = self.authority.issue("server")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.authority.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(own.certificate, own.key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"https://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

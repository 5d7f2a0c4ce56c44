"""The bound on the requests that the HTTP side has in work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from pipestream.errors import Overloaded
from pipestream.repository_server.answers import refused
from pipestream.telemetry.health import LIVE_PATH
from pipestream.telemetry.metrics import HTTP_REQUESTS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_FREE = ("/health", LIVE_PATH, "/metrics")
"""Whoever watches the server must get an answer."""


class BoundedRequests:
    """Refuses requests beyond a number before their body is read, as JSON: uvicorn's own limit answers plain text."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _FREE:
            await self._app(scope, receive, send)
        elif self._active >= self._most:
            await self._refuse(scope, receive, send)
        else:
            self._active += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._active -= 1

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = f"{self._active} requests are in work, as many as this process takes (grpc_max_calls); try again"
        answer = refused(Overloaded(reason))
        HTTP_REQUESTS.labels("refused", str(int(answer.status))).inc()
        headers = {**answer.headers, "Connection": "close"}
        await JSONResponse(dict(answer.values), answer.status, headers=headers)(scope, receive, send)

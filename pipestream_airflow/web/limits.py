"""Limits of what a request may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from pipestream.graph.yamltree import MAX_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = MAX_BYTES + 64 * 1024
"""The largest body: a graph file of the largest size that is read, and what is around it."""


class _TooLarge(Exception):
    """The body is larger than any request needs."""


class BodyLimit:
    """Refuses bodies that are too large, before they are read into memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > BODY_BYTES:
                raise _TooLarge
            return message

        try:
            await self._app(scope, limited, send)
        except _TooLarge:
            reason = f"the body is larger than {BODY_BYTES} bytes"
            await JSONResponse({"detail": reason, "problems": []}, 413)(scope, receive, send)

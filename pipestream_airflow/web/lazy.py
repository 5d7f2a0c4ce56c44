"""The app as the plugin names it. Every process of Airflow loads the plugin, and only the API server needs the app."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class LazyApp:
    """Imports and builds the app at the first request: that takes over a second, and a task must not wait for it."""

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._building = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            from anyio.to_thread import run_sync

            await run_sync(self._build)
        assert self._app is not None
        await self._app(scope, receive, send)

    def _build(self) -> None:
        with self._building:
            if self._app is None:
                from pipestream_airflow.web.app import create_app

                self._app = create_app()

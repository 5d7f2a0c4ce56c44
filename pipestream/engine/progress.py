"""Tell a gateway how far each document is: ``POST {gateway}/envelopes/{id}/progress`` and ``/final``.

Progress never delays a document and never fails one. Reports wait in a queue for a thread that sends them in order.
When the gateway is slow or away, the queue fills up and further reports are dropped, which the log says once.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote
from urllib.request import Request, urlopen

from pipestream.urls import printable_url, split_login

if TYPE_CHECKING:
    from pipestream.modules.module import EnvelopePlace

log = logging.getLogger(__name__)

WEIGHTS = {"received": 10, "processing": 50, "completed": 100}
_WAITING = 10_000
_TIMEOUT_S = 5.0
_CLOSE_S = 5.0


class Progress(Protocol):
    """Who wants to know how far a document is."""

    def report(self, place: EnvelopePlace, status: str, message: str = "") -> None:
        """A document was ``received``, is ``processing`` or ``completed`` at a node."""

    def final(self, envelope_id: str, *, succeeded: bool, error: str = "") -> None:
        """A document has reached its end."""


def percentage(place: EnvelopePlace, status: str) -> float:
    """Return how much of its way a document has behind it."""
    return round((place.current * 100 + WEIGHTS[status]) / max(len(place.actors), 1), 2)


class GatewayProgress:
    """Sends progress to a gateway. Threads may share it; a forked process has a thread and a queue of its own."""

    def __init__(self, gateway_url: str, send: Callable[[str, bytes], None] | None = None) -> None:
        login, self._gateway = split_login(gateway_url.rstrip("/"))
        self._send = send or partial(_post, _headers(login))
        self._lock = threading.Lock()
        self._owner = 0
        self._waiting: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._failed = self._dropped = 0

    def report(self, place: EnvelopePlace, status: str, message: str = "") -> None:
        actor = place.actors[place.current] if place.current < len(place.actors) else ""
        body = {
            "id": place.id,
            "status": status,
            "progress_percent": percentage(place, status),
            "actors": list(place.actors),
            "current_actor_idx": place.current,
            "current_actor": actor,
            "message": message,
        }
        self._put(place.id, "progress", body | ({"parent_id": place.parent_id} if place.parent_id else {}))

    def final(self, envelope_id: str, *, succeeded: bool, error: str = "") -> None:
        body: dict[str, Any] = {"id": envelope_id, "status": "succeeded" if succeeded else "failed"}
        self._put(envelope_id, "final", body | ({"error": error[:500]} if error else {}))

    def close(self) -> None:
        """Send what waits, for a few seconds at most."""
        thread, self._thread = self._thread, None
        if thread is None or self._owner != os.getpid():
            return
        deadline = time.monotonic() + _CLOSE_S
        try:
            self._waiting.put(None, timeout=_CLOSE_S)
            thread.join(max(deadline - time.monotonic(), 0.0))
        except queue.Full:
            pass
        if self._dropped or self._failed or thread.is_alive():
            log.warning(
                "progress for %s: %d reports were dropped, %d could not be sent, about %d are left",
                printable_url(self._gateway), self._dropped, self._failed, self._waiting.qsize(),
            )  # fmt: skip

    def _put(self, envelope_id: str, what: str, body: dict[str, Any]) -> None:
        self._start()
        try:
            url = f"{self._gateway}/envelopes/{quote(envelope_id, safe='')}/{what}"
            self._waiting.put_nowait((url, json.dumps(body).encode()))
        except queue.Full:
            self._dropped += 1

    def _start(self) -> None:
        if self._thread is not None and self._owner == os.getpid():
            return
        with self._lock:
            if self._thread is None or self._owner != os.getpid():
                self._owner = os.getpid()
                self._waiting = queue.Queue(_WAITING)
                self._thread = threading.Thread(target=self._run, args=(self._waiting,), name="progress", daemon=True)
                self._thread.start()

    def _run(self, waiting: queue.Queue[tuple[str, bytes] | None]) -> None:
        while (item := waiting.get()) is not None:
            try:
                self._send(*item)
            except Exception as error:
                # Whatever goes wrong with a gateway concerns nobody but its users.
                self._failed += 1
                if self._failed == 1:
                    log.warning("progress for %s cannot be sent: %s", printable_url(self._gateway), error)


def _headers(login: str) -> dict[str, str]:
    """Return the headers of a report. A login goes there: urllib would take one in the address for the host's name."""
    headers = {"Content-Type": "application/json"}
    if login:
        headers["Authorization"] = f"Basic {b64encode(unquote(login).encode()).decode()}"
    return headers


def _post(headers: dict[str, str], url: str, body: bytes) -> None:
    request = Request(url, body, headers, method="POST")  # noqa: S310 - checked in settings
    with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
        pass

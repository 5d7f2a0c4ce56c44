"""Look at a server from outside: ask ``/health``, and read throughput from ``/metrics``."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

PROCESSED = "pipestream_messages_processed_total"
CALLS = "pipestream_grpc_calls_total"
REQUESTS = "pipestream_http_requests_total"
FAILED = "pipestream_messages_failed_total"
_PROBE_S = 10.0
_PROBLEM_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Sighting:
    """A server at one moment. Counters are those of the process, so they begin again with it."""

    at: float
    """Monotonic seconds."""
    is_healthy: bool
    problem: str = ""
    """Why it is not healthy."""
    is_alive: bool = False
    """Whether it says that a restart does not help, although it may not be healthy: what it needs is away."""
    processed: float = 0.0
    failed: float = 0.0
    calls: float = 0.0

    def describe(self, before: Sighting | None = None) -> str:
        """Return it in one line, with rates since the sighting before."""
        if not self.is_healthy:
            return f"not healthy: {self.problem}"
        parts = [
            "healthy",
            f"{self.processed:.0f} streams processed{_rate(self.processed, before, self.at, 'processed')}",
        ]
        if self.calls:
            parts.append(f"{self.calls:.0f} calls{_rate(self.calls, before, self.at, 'calls')}")
        if self.failed:
            parts.append(f"{self.failed:.0f} failed")
        return ", ".join(parts)


def _rate(value: float, before: Sighting | None, at: float, name: str) -> str:
    if before is None or not before.is_healthy or at <= before.at:
        return ""
    grown = value - getattr(before, name)
    if grown < 0:  # the server was started again
        grown = value
    return f" ({grown / (at - before.at):.1f}/s)"


def look_at(url: str, https: ssl.SSLContext | None = None, timeout_s: float = _PROBE_S) -> Sighting:
    """Ask a server how it is. Never raises for what the server does or fails to do.

    :param url: ``http://HOST:PORT`` of its telemetry, or ``https://…``.
    :param https: how to reach the second; None: as anybody, with the CAs of the system.
    """
    at = time.monotonic()
    try:
        _fetch(f"{url}/health", https, timeout_s)
        values = _sum_up(_fetch(f"{url}/metrics", https, timeout_s).decode())
    except urllib.error.HTTPError as error:
        with closing(error):
            said = _read_json(error)
            problem = f"{url}/health answers {error.code} {_describe(said)}".rstrip()
            return Sighting(at, False, problem, is_alive=said.get("alive") is True)
    except (OSError, ValueError, HTTPException) as error:
        return Sighting(at, False, f"{url} does not answer: {getattr(error, 'reason', error)}")
    return Sighting(
        at,
        True,
        is_alive=True,
        processed=values.get(PROCESSED, 0.0),
        failed=values.get(FAILED, 0.0),
        calls=values.get(CALLS, 0.0) + values.get(REQUESTS, 0.0),
    )


def _fetch(url: str, https: ssl.SSLContext | None, timeout_s: float) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ValueError("expected http:// or https://")
    # A proxy of the environment is for the internet, and the server is next door.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=https))
    with opener.open(url, timeout=timeout_s) as answer:
        body: bytes = answer.read()
    return body


def _sum_up(page: str) -> dict[str, float]:
    """Return the sum over the labels of each metric that is shown."""
    wanted = (PROCESSED, FAILED, CALLS, REQUESTS)
    found: dict[str, float] = {}
    for name, value in _samples(page):
        if name in wanted:
            found[name] = found.get(name, 0.0) + value
    return found


def _samples(page: str) -> Iterable[tuple[str, float]]:
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            yield sample.name, float(sample.value)


def _read_json(answer: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        values = json.loads(answer.read())
    except (OSError, ValueError, HTTPException):
        return {}
    return values if isinstance(values, dict) else {}


def _describe(said: Mapping[str, Any]) -> str:
    problems = said.get("problems")
    why = "; ".join(map(str, problems))[:_PROBLEM_CHARACTERS] if isinstance(problems, list) else ""
    return ": ".join(each for each in (str(said.get("status", "")), why) if each)

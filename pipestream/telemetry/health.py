"""How a server is: whether it takes work, and whether only a restart helps it.

The two are not the same. A server whose broker is away takes no work, and a restart would not bring the broker back. A
server whose loop hangs needs one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

LIVE_PATH = "/health/live"
"""Answers 503 only where a restart helps. ``/health`` answers 503 wherever the server takes no work."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a server is, and what a person wants to see next."""

    is_serving: bool
    """Whether it takes work."""
    details: Mapping[str, Any] = field(default_factory=dict)
    is_alive: bool = True
    """Whether its loops come around. Where they do not, nothing but a restart helps."""

    def answer(self, path: str = "") -> tuple[HTTPStatus, dict[str, Any]]:
        """Return the status and the JSON values that an HTTP path answers."""
        is_well = self.is_alive if path == LIVE_PATH else self.is_serving
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        name = "SERVING" if self.is_serving else "NOT_SERVING"
        return status, {"status": name, "alive": self.is_alive, **self.details}


class Pulse:
    """When a loop last came around. Its loop calls ``beat``; any thread may ask."""

    def __init__(self, stall_s: float) -> None:
        """:param stall_s: a loop that takes longer hangs."""
        self._stall_s = stall_s
        self._beat_at = time.monotonic()

    def beat(self) -> None:
        self._beat_at = time.monotonic()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._beat_at

    @property
    def is_stalled(self) -> bool:
        return self.age_s > self._stall_s

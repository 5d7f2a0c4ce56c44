"""What the engine reads of a call besides its message: key, trace, deadline, the wish for a path."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipestream.errors import RequestInvalid
from pipestream.kafka.records import Headers
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.telemetry.tracing import TRACEPARENT

PATH = "pipestream-path"
"""Request metadata: ``direct`` processes the document in the call, ``stored`` by the intake topic."""
PATHS = ("direct", "stored")


class Caller(NamedTuple):
    """Who calls, and how."""

    key: str = ""
    """The idempotency key; empty: none was sent."""
    path: str = ""
    traceparent: str = ""
    deadline: float | None = None
    """When the caller stops waiting, by ``time.monotonic``."""

    @property
    def headers(self) -> Headers:
        """Return what a record of this call carries."""
        return ((TRACEPARENT, self.traceparent.encode()),) if self.traceparent else ()

    @property
    def left_s(self) -> float | None:
        """Return how long the caller still waits."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def read_caller(context: Any) -> Caller:
    """Read a call's metadata and deadline.

    :raises RequestInvalid: the wish for a path is not one.
    """
    remaining = context.time_remaining()
    # gRPC says a very long time where the client has set none.
    deadline = time.monotonic() + remaining if remaining is not None and remaining < 1e8 else None
    values = _values(context.invocation_metadata() or (), (IDEMPOTENCY_KEY, PATH, TRACEPARENT))
    path = values.get(PATH, "")
    if path and path not in PATHS:
        raise RequestInvalid(f"{PATH}: {path[:50]!r} is not a path: use {' or '.join(PATHS)}")
    return Caller(values.get(IDEMPOTENCY_KEY, ""), path, values.get(TRACEPARENT, ""), deadline)


def _values(metadata: Sequence[tuple[str, str | bytes]], names: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in metadata if name in names and isinstance(value, str)}

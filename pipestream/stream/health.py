"""How a process that drains all the time is, for ``/health``."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pipestream.stream.worker import StreamWorker
from pipestream.telemetry.endpoint import Health


def health_of(worker: StreamWorker, stop: threading.Event) -> Health:
    """Tell how a worker is. It serves while its rounds succeed, even if a topic of it fails."""
    statuses = worker.statuses()
    states = Counter(status.state.value for status in statuses)
    details: dict[str, Any] = {"name": worker.name, "slots": dict(states), "max_leases": worker.max_leases}
    if worker.last_error:
        details["error"] = worker.last_error
    if errors := {str(status.key): status.error for status in statuses if status.error}:
        details["failing"] = errors
    return Health(bool(worker.rounds) and not worker.last_error and not stop.is_set(), details)

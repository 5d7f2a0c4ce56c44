"""How a process that drains all the time is, for ``/health``."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from pipestream.stream.worker import StreamWorker
from pipestream.telemetry.health import Health


def health_of(worker: StreamWorker, stop: threading.Event, stall_s: float) -> Health:
    """Tell how a worker is. It serves while its rounds succeed and its slots move, even if a topic of it fails.

    :param stall_s: a slot whose records have been in work for longer without a commit does not move. It may wait for a
        module or an engine that is slow, and a restart would not help then.
    """
    statuses = worker.statuses()
    states = Counter(status.state.value for status in statuses)
    problems = ["it is stopping"] if stop.is_set() else []
    if worker.pulse.is_stalled:
        problems.append(f"its last round ended {worker.pulse.age_s:.0f} s ago")
    if worker.last_error:
        problems.append(worker.last_error)
    elif not worker.rounds:
        problems.append("no round has succeeded yet")
    problems += [
        f"{status.key}: {status.in_flight} records are in work, and nothing was committed for {status.stalled_s:.0f} s"
        for status in statuses
        if status.stalled_s > stall_s
    ]
    details: dict[str, Any] = {"name": worker.name, "slots": dict(states), "max_leases": worker.max_leases}
    if problems:
        details["problems"] = problems
    if errors := {str(status.key): status.error for status in statuses if status.error}:
        details["failing"] = errors
    # The last round ends before the slots do, which takes its time.
    return Health(not problems, details, is_alive=stop.is_set() or not worker.pulse.is_stalled)

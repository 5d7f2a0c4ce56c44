"""Cancel a runner between the moment when it takes a task and the moment when it sends it to Spark."""

from __future__ import annotations

from typing import Any, Protocol

from pipestream.drain.range_task import RangeTask
from pipestream.errors import LeaseLost

LOST = LeaseLost("intake.files", 0, "it ran out")
CANCELLED = r"\(they were cancelled\)"
"""What the error of a cancelled runner says."""


class Cancellable(Protocol):
    def cancel(self, why: LeaseLost) -> None: ...


class CancellingTask:
    """Cancels its runner when it is made ready to be sent: the session is there, and the job is not."""

    def __init__(self, runner: Cancellable, task: RangeTask) -> None:
        self.runner = runner
        self.task = task
        self.slot = task.slot
        self.sub_ranges = task.sub_ranges

    def to_fields(self) -> dict[str, Any]:
        self.runner.cancel(LOST)
        return self.task.to_fields()

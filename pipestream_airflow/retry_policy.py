"""When Airflow retries a task: as the tree of our errors says (``pipestream/errors.py``)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.retry_policy import RetryDecision, RetryPolicy

from pipestream.errors import LeaseUnavailable, LedgerBusy, Overtaken, PipestreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

OVERTAKEN_PAUSE = timedelta(seconds=10)
"""After an error of the kinds below. Another process was faster; that rarely lasts long."""
OVERTAKEN = (LeaseUnavailable, LedgerBusy, Overtaken)


class ErrorTreePolicy(RetryPolicy):
    """Fail at once on a terminal error, retry on a transient one, and leave every other exception to Airflow.

    After an error of a server that is down, it is retried with the task's growing pauses. Where another process was
    faster, such as with a lease that another run took, it is retried soon. The reason is logged and kept with the task.
    """

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,  # noqa: ARG002 - Airflow's signature
        max_tries: int,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> RetryDecision:
        error = next((each for each in _causes(exception) if isinstance(each, PipestreamError)), None)
        if error is None:
            return RetryDecision.default()
        reason = f"{type(error).__name__}, concerns the {error.concerns}"
        if not error.transient:
            return RetryDecision.fail(f"terminal: {reason}")
        delay = OVERTAKEN_PAUSE if isinstance(error, OVERTAKEN) else None
        return RetryDecision.retry(delay, f"transient: {reason}")

    def serialize(self) -> dict[str, Any]:
        """Return nothing to keep: the policy has no parameters."""
        return {"__type": type(self).__name__}


def _causes(exception: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what caused it, outermost first."""
    while exception is not None:
        yield exception
        exception = exception.__cause__

"""Count what the core does. The core is given a meter, so that a question such as ``graph explain`` counts nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

from pipestream.errors import (
    ConditionError,
    DocumentMissing,
    HopsExceeded,
    IdInvalid,
    ModuleFailed,
    ModuleTimeout,
    ModuleUnavailable,
    PipestreamError,
    ProcessDied,
    RecordInvalid,
    StoreUnavailable,
)
from pipestream.telemetry import metrics

_REASONS: dict[type[PipestreamError], str] = {
    RecordInvalid: "parse_error",
    IdInvalid: "validation_error",
    DocumentMissing: "hydration_error",
    StoreUnavailable: "hydration_error",
    ConditionError: "routing_error",
    HopsExceeded: "routing_error",
    ModuleFailed: "runtime_error",
    ModuleTimeout: "runtime_error",
    ProcessDied: "runtime_error",
    ModuleUnavailable: "transport_error",
}
_MESSAGE_REASONS = ("parse_error", "validation_error", "route_mismatch")
_RUNTIME_ERRORS: dict[type[PipestreamError], str] = {
    ModuleTimeout: "timeout",
    ModuleUnavailable: "unavailable",
    ModuleFailed: "execution_error",
    ProcessDied: "process_died",
}


class Meter(Protocol):
    """What the core reports. Queues are topics."""

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None:
        """Records or calls have arrived."""

    def module_called(self, queue: str, seconds: float, error: PipestreamError | None) -> None:
        """A module was called once, and answered or failed."""

    def processed(self, queue: str, status: str, seconds: float) -> None:
        """A node has processed a stream: ``success``, ``empty_response`` or ``end_consumed``."""

    def failed(self, queue: str, error: PipestreamError) -> None:
        """A node has given up on a stream."""

    def sent(self, destination: str, message_type: str, edge_id: str, size_bytes: int) -> None:
        """A stream leaves: ``routing``, ``happy_end`` or ``error_end``. ``edge_id`` is empty for an end."""

    def dead_letter(self, node_id: str, error: PipestreamError) -> None:
        """A dead letter was made."""

    def ended(self, *, succeeded: bool) -> None:
        """All routes of an arrival are known."""

    def timed(self, step: str, queue: str = "") -> Any:
        """Return a context manager that times a step: ``receive``, ``hydrate``, ``dispatch`` or ``send``."""


class PrometheusMeter:
    """Counts for one graph, in the metrics of this process."""

    def __init__(self, graph_id: str) -> None:
        self._graph_id = graph_id
        self._children: dict[tuple[Any, ...], Any] = {}

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None:
        self._of(metrics.MESSAGES_RECEIVED, queue, transport).inc(len(sizes_bytes))
        sizes = self._of(metrics.ENVELOPE_SIZE, "received")
        for size in sizes_bytes:
            sizes.observe(size)

    def module_called(self, queue: str, seconds: float, error: PipestreamError | None) -> None:
        self._of(metrics.RUNTIME_DURATION, queue).observe(seconds)
        if error is not None:
            self._of(metrics.RUNTIME_ERRORS, queue, _kind(error, _RUNTIME_ERRORS)).inc()

    def processed(self, queue: str, status: str, seconds: float) -> None:
        self._of(metrics.MESSAGES_PROCESSED, queue, status).inc()
        self._of(metrics.PROCESSING_DURATION, queue).observe(seconds)

    def failed(self, queue: str, error: PipestreamError) -> None:
        self._of(metrics.MESSAGES_FAILED, queue, _reason(error)).inc()

    def sent(self, destination: str, message_type: str, edge_id: str, size_bytes: int) -> None:
        self._of(metrics.MESSAGES_SENT, destination, message_type).inc()
        self._of(metrics.ENVELOPE_SIZE, "sent").observe(size_bytes)
        if edge_id:
            self._of(metrics.ROUTING_DISPATCHED, self._graph_id, edge_id).inc()

    def dead_letter(self, node_id: str, error: PipestreamError) -> None:
        # Names of our classes, which are few. A module's own names of errors could be any number.
        self._of(metrics.DLQ_PUBLISHED, self._graph_id, node_id, type(error).__name__).inc()

    def ended(self, *, succeeded: bool) -> None:
        self._of(metrics.DOC_SUCCESS if succeeded else metrics.DOC_FAILURE, self._graph_id).inc()

    @contextmanager
    def timed(self, step: str, queue: str = "") -> Iterator[None]:
        metric, by_queue = self._steps[step]
        started = time.perf_counter()
        try:
            yield
        finally:
            self._of(metric, queue if by_queue else self._graph_id).observe(time.perf_counter() - started)

    @cached_property
    def _steps(self) -> dict[str, tuple[Any, bool]]:
        return {
            "receive": (metrics.RECEIVE_DURATION, True),
            "send": (metrics.SEND_DURATION, True),
            "hydrate": (metrics.HYDRATION_DURATION, False),
            "dispatch": (metrics.DISPATCH_DURATION, False),
        }

    def _of(self, metric: Any, *labels: str) -> Any:
        """Return a metric's child. Kept here: the library's own look-up takes a lock and checks every label."""
        place = (metric, *labels)
        child = self._children.get(place)
        if child is None:
            child = self._children[place] = metric.labels(*labels)
        return child


class NoMeter:
    """Counts nothing."""

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None: ...
    def module_called(self, queue: str, seconds: float, error: PipestreamError | None) -> None: ...
    def processed(self, queue: str, status: str, seconds: float) -> None: ...
    def failed(self, queue: str, error: PipestreamError) -> None: ...
    def sent(self, destination: str, message_type: str, edge_id: str, size_bytes: int) -> None: ...
    def dead_letter(self, node_id: str, error: PipestreamError) -> None: ...
    def ended(self, *, succeeded: bool) -> None: ...

    @contextmanager
    def timed(self, step: str, queue: str = "") -> Iterator[None]:  # noqa: ARG002
        yield


def _reason(error: PipestreamError) -> str:
    """Return why a stream failed. A module behind a socket can tell that the message itself was wrong."""
    said = error.details.get("error") if isinstance(error, ModuleFailed) else None
    return said if said in _MESSAGE_REASONS else _kind(error, _REASONS)


def _kind(error: PipestreamError, kinds: dict[type[PipestreamError], str]) -> str:
    """Return the name for an error's class, or for the nearest of its base classes."""
    return next((kinds[base] for base in type(error).__mro__ if base in kinds), "internal_error")

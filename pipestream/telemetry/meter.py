"""Count what the core does. The core is given a meter, so that a question such as ``graph explain`` counts nothing."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

    def processed(self, queue: str, status: str, seconds: Sequence[float]) -> None:
        """A node has processed streams: ``success``, ``empty_response`` or ``end_consumed``. Each took its seconds."""

    def failed(self, queue: str, error: PipestreamError) -> None:
        """A node has given up on a stream."""

    def sent(self, destination: str, message_type: str, edge_id: str, sizes_bytes: Sequence[int]) -> None:
        """Streams leave: ``routing``, ``happy_end`` or ``error_end``. ``edge_id`` is empty for an end."""

    def dead_letter(self, node_id: str, error: PipestreamError) -> None:
        """A dead letter was made."""

    def ended(self, count: int = 1, *, succeeded: bool) -> None:
        """All routes of an arrival are known, or of several."""

    def processing(self) -> AbstractContextManager[Any]:
        """Return a context manager in which a stream is processed."""

    def timed(self, step: str, queue: str = "") -> Any:
        """Return a context manager that times a step: ``receive``, ``hydrate``, ``dispatch`` or ``send``."""


class PrometheusMeter:
    """Counts for one graph, in the metrics of this process."""

    def __init__(self, graph_id: str) -> None:
        self._graph_id = graph_id
        self._children: dict[tuple[Any, ...], Any] = {}

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None:
        self._of(metrics.MESSAGES_RECEIVED, queue, transport).inc(len(sizes_bytes))
        _observe_all(self._of(metrics.ENVELOPE_SIZE, "received"), sizes_bytes)

    def module_called(self, queue: str, seconds: float, error: PipestreamError | None) -> None:
        self._of(metrics.RUNTIME_DURATION, queue).observe(seconds)
        if error is not None:
            self._of(metrics.RUNTIME_ERRORS, queue, _kind(error, _RUNTIME_ERRORS)).inc()

    def processed(self, queue: str, status: str, seconds: Sequence[float]) -> None:
        self._of(metrics.MESSAGES_PROCESSED, queue, status).inc(len(seconds))
        _observe_all(self._of(metrics.PROCESSING_DURATION, queue), seconds)

    def failed(self, queue: str, error: PipestreamError) -> None:
        self._of(metrics.MESSAGES_FAILED, queue, _reason(error)).inc()

    def sent(self, destination: str, message_type: str, edge_id: str, sizes_bytes: Sequence[int]) -> None:
        self._of(metrics.MESSAGES_SENT, destination, message_type).inc(len(sizes_bytes))
        _observe_all(self._of(metrics.ENVELOPE_SIZE, "sent"), sizes_bytes)
        if edge_id:
            self._of(metrics.ROUTING_DISPATCHED, self._graph_id, edge_id).inc(len(sizes_bytes))

    def dead_letter(self, node_id: str, error: PipestreamError) -> None:
        # Names of our classes, which are few. A module's own names of errors could be any number.
        self._of(metrics.DLQ_PUBLISHED, self._graph_id, node_id, type(error).__name__).inc()

    def ended(self, count: int = 1, *, succeeded: bool) -> None:
        self._of(metrics.DOC_SUCCESS if succeeded else metrics.DOC_FAILURE, self._graph_id).inc(count)

    def processing(self) -> AbstractContextManager[Any]:
        tracker: AbstractContextManager[Any] = metrics.ACTIVE_MESSAGES.track_inprogress()
        return tracker

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


class GatheringMeter:
    """Keeps what happens to every document, until ``flush`` counts it all at once in another meter.

    Every update of a metric takes a lock, and a histogram takes two. For a chunk of documents, one update of each is
    enough. It is for one thread.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._received: dict[tuple[str, str], list[int]] = {}
        self._processed: dict[tuple[str, str], list[float]] = {}
        self._sent: dict[tuple[str, str, str], list[int]] = {}
        self._ended: dict[bool, list[int]] = {}
        # What happens to few documents is counted as it happens.
        self.module_called = meter.module_called
        self.failed = meter.failed
        self.dead_letter = meter.dead_letter
        self.processing = meter.processing
        self.timed = meter.timed

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None:
        self._received.setdefault((queue, transport), []).extend(sizes_bytes)

    def processed(self, queue: str, status: str, seconds: Sequence[float]) -> None:
        self._processed.setdefault((queue, status), []).extend(seconds)

    def sent(self, destination: str, message_type: str, edge_id: str, sizes_bytes: Sequence[int]) -> None:
        self._sent.setdefault((destination, message_type, edge_id), []).extend(sizes_bytes)

    def ended(self, count: int = 1, *, succeeded: bool) -> None:
        self._ended.setdefault(succeeded, []).append(count)

    def flush(self) -> None:
        """Count what was gathered."""
        if not (self._received or self._processed or self._sent or self._ended):
            return  # so it is for all calls of a transaction but the first
        for (queue, transport), received_bytes in self._received.items():
            self._meter.received(queue, transport, received_bytes)
        for (queue, status), seconds in self._processed.items():
            self._meter.processed(queue, status, seconds)
        for (destination, message_type, edge_id), sizes_bytes in self._sent.items():
            self._meter.sent(destination, message_type, edge_id, sizes_bytes)
        for succeeded, counts in self._ended.items():
            self._meter.ended(sum(counts), succeeded=succeeded)
        self._received, self._processed, self._sent, self._ended = {}, {}, {}, {}


class NoMeter:
    """Counts nothing."""

    def received(self, queue: str, transport: str, sizes_bytes: list[int]) -> None: ...
    def module_called(self, queue: str, seconds: float, error: PipestreamError | None) -> None: ...
    def processed(self, queue: str, status: str, seconds: Sequence[float]) -> None: ...
    def failed(self, queue: str, error: PipestreamError) -> None: ...
    def sent(self, destination: str, message_type: str, edge_id: str, sizes_bytes: Sequence[int]) -> None: ...
    def dead_letter(self, node_id: str, error: PipestreamError) -> None: ...
    def ended(self, count: int = 1, *, succeeded: bool) -> None: ...

    def processing(self) -> AbstractContextManager[Any]:
        return nullcontext()

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


def _observe_all(histogram: Any, values: Sequence[float]) -> None:
    """Observe values at once, with one update of the sum and of each bucket that they are in.

    The library has only ``observe`` for one value. This writes what that would write.
    """
    if len(values) == 1:
        histogram.observe(values[0])
        return
    bounds = histogram._upper_bounds
    for bucket, count in Counter(bisect_left(bounds, value) for value in values).items():
        histogram._buckets[bucket].inc(count)
    histogram._sum.inc(sum(values))

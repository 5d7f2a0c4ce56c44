"""One slot that a worker holds: a thread that keeps the lease and drains, through errors, pauses and changes."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pipestream.errors import LeaseLost, PipestreamError
from pipestream.leases.keeper import LeaseKeeper
from pipestream.leases.store import Lease, LeaseStore
from pipestream.stream.shares import SlotKey
from pipestream.stream.topic_stream import StreamEnded
from pipestream.stream.wanted import StreamSpec

log = logging.getLogger(__name__)

# The first pause after a failure, and the longest: a topic that is created late is found within half a minute.
_BACKOFF_S = 0.5
_BACKOFF_MAX_S = 30.0
# A stream that has worked this long without failing is well again, even if nothing arrived.
_STABLE_S = 10.0


class SlotStream(Protocol):
    """Drains one slot of one topic while its lease is held: see ``TopicStream``."""

    @property
    def positions(self) -> Mapping[int, int]:
        """Return where each partition continues: the offsets that are committed."""

    @property
    def in_flight(self) -> int:
        """Return how many records are being processed."""

    @property
    def stalled_s(self) -> float:
        """Return how long records have been in work without a commit; 0 if none are."""

    @property
    def failures(self) -> int:
        """Return how often it has failed since it last could drain."""

    @property
    def trouble(self) -> str:
        """Return why it cannot drain at the moment, although it tries; empty if it can."""

    def run(self, stop: threading.Event) -> StreamEnded:
        """Drain until asked to stop, or until there is a reason to end; everything is then recorded."""

    def cancel(self, why: LeaseLost) -> None:
        """Stop what is under way before its next transaction: the lease is lost. Called from another thread."""


OpenStream = Callable[[StreamSpec, LeaseKeeper], SlotStream]
"""Makes the stream of a slot."""


class SlotState(StrEnum):
    """How a slot is."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """What a person wants to know of a slot."""

    key: SlotKey
    spec: StreamSpec
    state: SlotState
    failures: int
    """How often its stream has failed since it last worked."""
    error: str
    """Why it is not drained at the moment."""
    positions: Mapping[int, int]
    in_flight: int
    """Records that are being processed."""
    stalled_s: float = 0.0
    """How long they have been without a commit."""


class SlotThread:
    """Holds a slot's lease, and drains the slot, until it is ended or the lease is lost.

    A stream that fails is opened again after a pause that doubles; the lease stays. Nothing that happens here stops
    another slot.
    """

    def __init__(
        self, leases: LeaseStore, lease: Lease, spec: StreamSpec, open_stream: OpenStream, on_end: Callable[[], None]
    ) -> None:
        """
        :param on_end: called when the lease has been given back, or is lost.
        """
        self.key = SlotKey(lease.name, lease.slot)
        self._leases = leases
        self._lease = lease
        self._spec = spec
        self._open_stream = open_stream
        self._on_end = on_end
        # Guards the fields below; notified when what the thread is to do has changed.
        self._changed = threading.Condition()
        self._is_ending = False
        self._is_paused = False
        self._stop = threading.Event()
        """Of the stream that runs now, or of the pause after one that failed."""
        self._stream: SlotStream | None = None
        self._running_since: float | None = None
        self._failures = 0
        self._error = ""
        self._thread = threading.Thread(target=self._main, name=f"stream {self.key}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_ending(self) -> bool:
        return self._is_ending

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def join(self, timeout_s: float) -> bool:
        """Wait until the thread has ended, and return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def end(self, why: str) -> None:
        """Stop at the end of the chunk, and give the lease back. Does not wait."""
        with self._changed:
            if self._is_ending:
                return
            log.info("%s: ending: %s", self.key, why)
            self._is_ending = True
            self._notify()

    def pause(self, paused: bool) -> None:
        """Stop draining and keep the lease, or resume."""
        with self._changed:
            if self._is_paused != paused:
                log.info("%s: %s", self.key, "paused" if paused else "resumed")
                self._is_paused = paused
                self._notify()

    def update(self, spec: StreamSpec) -> None:
        """Take note of another graph or other replicas. The stream follows both by itself."""
        with self._changed:
            self._spec = spec

    def restart(self) -> None:
        """Open the stream again at the end of the chunk, because its settings have changed."""
        with self._changed:
            self._notify()

    def _notify(self) -> None:
        self._stop.set()
        self._changed.notify_all()

    def status(self) -> SlotStatus:
        with self._changed:
            trouble = self._find_trouble()
            state = SlotState.PAUSED if self._is_paused else SlotState.ERROR if trouble else SlotState.ACTIVE
            positions = dict(self._stream.positions) if self._stream else {}
            in_flight = self._stream.in_flight if self._stream else 0
            stalled_s = self._stream.stalled_s if self._stream else 0.0
            failures = self._failures + (self._stream.failures if self._stream else 0) if trouble else 0
            return SlotStatus(self.key, self._spec, state, failures, trouble, positions, in_flight, stalled_s)

    def _find_trouble(self) -> str:
        """Return why the slot is not drained at the moment; empty if it is."""
        if self._running_since is not None:
            if self._stream and self._stream.trouble:
                return self._stream.trouble
            if time.monotonic() - self._running_since > _STABLE_S:
                return ""
        return self._error

    def _main(self) -> None:
        try:
            with LeaseKeeper(self._leases, self._lease, on_lost=self._lose) as keeper:
                while not self._is_ending:
                    self._wait_while_paused()
                    if not self._is_ending:
                        self._run_once(keeper)
        except PipestreamError as error:  # the lease could not be kept
            log.warning("%s: %s", self.key, error)
        except Exception:
            log.exception("%s: unexpected", self.key)
        finally:
            self._on_end()

    def _lose(self, why: LeaseLost) -> None:
        self.end("the lease is lost")
        with self._changed:
            stream = self._stream
        if stream is not None:
            stream.cancel(why)

    def _wait_while_paused(self) -> None:
        with self._changed:
            while self._is_paused and not self._is_ending:
                self._changed.wait()

    def _run_once(self, keeper: LeaseKeeper) -> None:
        """Run a stream until it ends; after a failure, pause."""
        with self._changed:
            if self._is_paused or self._is_ending:
                return
            stop = self._stop = threading.Event()
            spec = self._spec
        try:
            ended = self._run_stream(spec, stop, keeper)
        except Exception as error:  # a bug of ours or of a library's is a failure of this slot alone
            log.exception("%s: unexpected", self.key)
            self._back_off(f"unexpected {type(error).__name__}: {error}", stop)
            return
        if ended.error is not None:
            self._back_off(ended.reason, stop)
        elif not stop.is_set():
            self.end(ended.reason)

    def _run_stream(self, spec: StreamSpec, stop: threading.Event, keeper: LeaseKeeper) -> StreamEnded:
        stream = self._open_stream(spec, keeper)
        started_at = time.monotonic()
        with self._changed:
            self._stream, self._running_since = stream, started_at
        try:
            return stream.run(stop)
        finally:
            with self._changed:
                self._running_since = None
                if time.monotonic() - started_at > _STABLE_S:
                    self._failures, self._error = 0, ""

    def _back_off(self, why: str, stop: threading.Event) -> None:
        with self._changed:
            self._failures += 1
            self._error = why
            pause_s = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(self._failures - 1, 10))
        pause_s *= random.uniform(0.8, 1.0)  # noqa: S311 - not for secrets
        log.warning("%s: failed %d times, again in %.1f s: %s", self.key, self._failures, pause_s, why)
        stop.wait(pause_s)

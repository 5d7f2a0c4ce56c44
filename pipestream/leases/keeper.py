"""Keeps one lease alive for as long as a run lasts, and notices when it is gone."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Self

from pipestream.errors import LeaseLost
from pipestream.telemetry.metrics import LEASE_SINCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pipestream.leases.store import Lease, LeaseStore

log = logging.getLogger(__name__)

# A store answers or gives up within two timeouts of 8 s; a thread that is not back by then is left behind.
JOIN_TIMEOUT_S = 20.0


def elapsed_s() -> float:
    """Return seconds on a clock that never goes back and, where it can, runs while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class LeaseKeeper:
    """Renews a lease in the background; leaving the ``with`` block releases it.

    ::

        with LeaseKeeper(store, store.acquire(topic, 0, holder, ttl_s)) as keeper:
            for piece in work:
                keeper.check()
                ...

    The lease counts as lost when the store says so, when renewals have failed for two thirds of its TTL,
    or when a whole TTL has passed since the last renewal that succeeded (the process was stopped, or the
    machine slept). Then ``lost`` is set, ``on_lost`` is called once (in whichever thread found out), and
    ``check`` raises from there on. ``check`` reads the clock itself and is exact; ``lost`` may be set later
    than that by as long as one call to the store takes to give up.
    """

    def __init__(
        self,
        store: LeaseStore,
        lease: Lease,
        *,
        clock: Callable[[], float] = elapsed_s,
        on_lost: Callable[[LeaseLost], None] | None = None,
    ) -> None:
        self.lease = lease
        self.lost = threading.Event()
        self._store = store
        self._clock = clock
        self._on_lost = on_lost
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease {lease.name}/{lease.slot}", daemon=True)
        # When the last renewal that succeeded was sent. The store counts from later: we err on the safe side.
        self._renewed_at = clock()
        self._failure: str | None = None
        self._reason: str | None = None

    def __enter__(self) -> Self:
        """Renew once, and start renewing.

        The first renewal is done at once because nobody knows how long ago the lease was acquired.

        :raises LeaseLost: it has run out already.
        """
        try:
            self._renew()
        except BaseException:
            self._release()
            raise
        self._thread.start()
        LEASE_SINCE.labels(self.lease.name, str(self.lease.slot)).set_to_current_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(JOIN_TIMEOUT_S)
        self._release()

    def check(self) -> None:
        """Return if the lease is still held.

        :raises LeaseLost: it is not; stop working and write nothing more.
        """
        reason = self._why_lost()
        if reason is None:
            return
        raise self._declare(reason)

    def _why_lost(self) -> str | None:
        with self._guard:
            if self._reason is not None:
                return self._reason
            age_s = self._clock() - self._renewed_at
            if self._failure is not None and age_s >= self.lease.ttl_s * 2 / 3:
                return f"renewals have failed for {age_s:.1f} s: {self._failure}"
            if age_s >= self.lease.ttl_s:
                return f"it was not renewed for {age_s:.1f} s, longer than its {self.lease.ttl_s:g} s"
            return None

    def _declare(self, reason: str) -> LeaseLost:
        """Make the loss known, once, and return the error for it."""
        with self._guard:
            first = self._reason is None
            if self._reason is None:
                self._reason = reason
            error = LeaseLost(self.lease.name, self.lease.slot, self._reason)
        if first:
            log.warning("%s", error)
            self.lost.set()
            if self._on_lost is not None:
                try:
                    self._on_lost(error)
                except Exception:
                    log.exception("%s slot %d: on_lost failed", self.lease.name, self.lease.slot)
        return error

    def _renew(self) -> None:
        sent_at = self._clock()
        self._store.renew(self.lease)
        with self._guard:
            self._renewed_at = sent_at
            self._failure = None

    def _keep(self) -> None:
        pause_s = self._pause_s(3)
        while not self._stop.wait(pause_s):
            # A stopped process comes back here late, and must not revive what check() may have given up.
            reason = self._why_lost()
            if reason is None:
                reason, pause_s = self._try_renewal()
            if reason is not None:
                self._declare(reason)
                return

    def _try_renewal(self) -> tuple[str | None, float]:
        """Return why the lease is lost, if it is, and how long to pause before the next renewal."""
        try:
            self._renew()
        except LeaseLost as error:
            return error.reason, 0.0
        except Exception as error:  # a renewal that fails in any way is a renewal to try again
            log.warning("%s slot %d: renewal failed, trying again: %s", self.lease.name, self.lease.slot, error)
            with self._guard:
                self._failure = str(error) or type(error).__name__
                left_s = self._renewed_at + self.lease.ttl_s * 2 / 3 - self._clock()
            return self._why_lost(), max(0.0, min(left_s, self._pause_s(12)))
        return None, self._pause_s(3)

    def _pause_s(self, parts: int) -> float:
        """Return a ``parts``-th of the TTL, up to a tenth less so that many holders do not renew in step."""
        return self.lease.ttl_s / parts * random.uniform(0.9, 1.0)  # noqa: S311 - not for secrets

    def _release(self) -> None:
        LEASE_SINCE.labels(self.lease.name, str(self.lease.slot)).set(0)
        try:
            self._store.release(self.lease)
        except Exception as error:  # it runs out by itself, and the body's own error matters more
            log.warning(
                "%s slot %d: not released, so it stays leased for up to %g s: %s",
                self.lease.name,
                self.lease.slot,
                self._store.longest_expiry_s(self.lease.ttl_s),
                error,
            )

"""Hold back the calls of a module that is down, instead of failing one document after the other."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from pipestream.errors import ModuleDown

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 10.0


class CircuitBreaker:
    """Closed, calls pass. Open, they wait until a probe finds the module again.

    It opens after ``failures`` calls in a row that did not get through. After a pause one waiting call (half-open) asks
    the module whether it is back, without a document: so a document that kills its module uses up its own attempts,
    and cannot keep the breaker open. Each pause is twice the one before, less a random part. Safe for several threads.
    """

    def __init__(
        self,
        name: str,
        failures: int,
        pause_s: float,
        probe: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param probe: asks the module; returns why it is not back, or nothing."""
        self._name = name
        self._failures = failures
        self._first_pause_s = pause_s
        self._probe = probe
        self._clock = clock
        self._changed = threading.Condition()
        self._in_a_row = 0
        self._reason = ""
        self._pause_s = pause_s
        self._probe_at = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        return bool(self._reason)

    @property
    def reason(self) -> str:
        """Why it is open; empty: it is closed."""
        return self._reason

    def admit(self, wait_s: float) -> None:
        """Return when a call may be made: at once while the breaker is closed.

        :raises ModuleDown: it stayed open for ``wait_s``.
        """
        if not self._reason:
            return
        deadline = self._clock() + wait_s
        while self._reason:
            with self._changed:
                if not self._reason:
                    return
                now = self._clock()
                turn = not self._is_probing and now >= self._probe_at
                if turn:
                    self._is_probing = True
                elif now >= deadline:
                    raise ModuleDown(self._name, self._reason, wait_s)
                else:
                    until = deadline if self._is_probing else min(deadline, self._probe_at)
                    self._changed.wait(max(until - now, 0.001))
            if turn:
                self._ask()

    def got_through(self) -> None:
        """Note a call that the module answered, with success or with an error of its own."""
        if self._in_a_row:
            with self._changed:
                self._in_a_row = 0

    def failed(self, reason: str) -> None:
        """Note a call that did not get through."""
        with self._changed:
            self._in_a_row += 1
            if self._in_a_row >= self._failures:
                self._open(reason)

    def trip(self, reason: str) -> None:
        """Open at once: the module itself says that it cannot be called."""
        with self._changed:
            self._open(reason)

    def _open(self, reason: str) -> None:
        if not self._reason:
            log.warning("%s is down (%s); its calls are held back", self._name, reason)
            self._pause_s = self._first_pause_s
            self._probe_at = self._clock() + self._jittered()
        self._reason = reason

    def _ask(self) -> None:
        reason = "the probe failed"
        try:
            reason = self._probe()
        finally:
            with self._changed:
                self._is_probing = False
                self._reason = reason
                if reason:
                    self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
                    self._probe_at = self._clock() + self._jittered()
                else:
                    log.warning("%s is back", self._name)
                    self._in_a_row = 0
                self._changed.notify_all()

    def _jittered(self) -> float:
        return self._pause_s * (1 - random.random() / 2)  # noqa: S311 - jitter, not a secret

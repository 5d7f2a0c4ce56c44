"""The keys that a slot has accepted lately, in memory."""

from __future__ import annotations

import logging
import struct
from collections import deque

from pipestream.accepted.record import Accepted

log = logging.getLogger(__name__)

# One object per key instead of four: 1.8 million keys, which is 2,000 calls a second for a quarter of an hour, then
# take about 500 MB less.
_VALUE = struct.Struct(">Q16s")


class Window:
    """Digests of keys, oldest first. Not safe to share between threads."""

    def __init__(self, window_s: float, most: int) -> None:
        self._window_ms = int(window_s * 1_000)
        self._most = most
        self._values: dict[bytes, bytes] = {}
        # The order beside the dictionary: to take the first key out of a dictionary over and over is quadratic.
        self._order: deque[bytes] = deque()
        self._has_forgotten = False

    def __len__(self) -> int:
        return len(self._values)

    def remember(self, accepted: Accepted) -> None:
        """Keep a key with its answer, and forget the oldest where there are too many.

        The first answer counts: a key that is known already is left as it is.
        """
        if accepted.digest in self._values:
            return
        self._values[accepted.digest] = _VALUE.pack(accepted.time_ms, accepted.content) + accepted.answer
        self._order.append(accepted.digest)
        if len(self._order) > self._most:
            value = self._values.pop(self._order.popleft())
            self._report_forgotten(accepted.time_ms - _time_ms(value))

    def find(self, digest: bytes, now_ms: int) -> tuple[bytes, bytes] | None:
        """Return the digest of the content and the answer of a key, if it was accepted within the window."""
        value = self._values.get(digest)
        if value is None or _time_ms(value) < now_ms - self._window_ms:
            return None
        return value[8 : _VALUE.size], value[_VALUE.size :]

    def expire(self, now_ms: int) -> None:
        """Forget the keys that are older than the window."""
        oldest_ms = now_ms - self._window_ms
        while self._order and _time_ms(self._values[self._order[0]]) < oldest_ms:
            del self._values[self._order.popleft()]

    def _report_forgotten(self, age_ms: int) -> None:
        if age_ms < self._window_ms and not self._has_forgotten:
            self._has_forgotten = True
            log.warning(
                "more than %d idempotency keys came within the window, so it is %.0f s long instead of %.0f s; "
                "raise engine_window_keys or engine_slots",
                self._most,
                age_ms / 1_000,
                self._window_ms / 1_000,
            )


def _time_ms(value: bytes) -> int:
    return int.from_bytes(value[:8], "big")

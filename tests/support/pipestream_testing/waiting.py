"""Wait for a condition, and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def wait_until(
    condition: Callable[[], Answer],
    complaint: str = "it never came true",
    *,
    timeout_s: float = 120.0,
    poll_s: float = 0.02,
) -> Answer:
    """Return what a condition answers as soon as that is true.

    :param complaint: what to say of a condition that did not come true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{complaint} in {timeout_s:g} s"
        time.sleep(poll_s)
    return answer

"""Let Python look for reference cycles less often while documents are drained.

The records of a chunk and their results are many objects without cycles, which go as soon as the chunk is committed.
Looking through them, and through all that a process has imported, took a sixth of the CPU of a drain that passes
documents on.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# New objects after which Python looks for cycles among them; 700 by default.
_THRESHOLD = 10_000


def collect_rarely() -> None:
    """Look for cycles less often from now on, unless this process never looks for them."""
    first, *others = gc.get_threshold()
    if 0 < first < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, *others)


_guard = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds before each drain that is at work."""


@contextmanager
def spared_collector() -> Iterator[None]:
    """Look for cycles less often, and leave out what is there already; for a process that also does other things.

    Drains of one process may overlap. The last that ends gives back what the first has found.
    """
    with _guard:
        _before.append(_before[0] if _before else gc.get_threshold())
        collect_rarely()
        gc.freeze()
    try:
        yield
    finally:
        with _guard:
            before = _before.pop()
            if not _before:
                gc.unfreeze()
                gc.set_threshold(*before)

"""Watch the memory of a server while it is under load."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, field

import psutil

QUIET = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""Environment of a server whose memory is watched: glibc gives back what is free, instead of keeping it per thread."""


@dataclass(slots=True)
class MemoryWatch:
    """Samples of a process's memory, and the number of calls it had answered by then."""

    pid: int
    samples: list[tuple[int, int]] = field(default_factory=list)

    def look(self, calls: int) -> None:
        """Take a sample after so many calls."""
        self.samples.append((calls, psutil.Process(self.pid).memory_info().rss))

    def bytes_per_call(self) -> float:
        """Return how much memory grows with a call: the median of the slopes between all pairs of samples.

        One step up or down, such as a buffer that reached its size, does not move the median. A leak does.
        """
        pairs = itertools.combinations(self.samples, 2)
        return statistics.median((after - before) / (later - earlier) for (earlier, before), (later, after) in pairs)

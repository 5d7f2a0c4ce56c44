"""Threads that begin at the same moment, to race for something."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Answer = TypeVar("Answer")


def together(count: int, work: Callable[[int], Answer]) -> list[Answer]:
    """Run ``work(number)`` in as many threads at the same moment; return what each gave, or raise what one raised."""
    barrier = Barrier(count)

    def run(number: int) -> Answer:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))

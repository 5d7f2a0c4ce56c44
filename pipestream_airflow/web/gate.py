"""Asks servers in a few threads of our own, so that one that hangs takes neither Airflow's API nor the page down.

Airflow runs its own ``def`` endpoints in a pool of threads that all of its API shares. A hundred of our questions to a
Kafka that does not answer would take all of them. So every endpoint here is ``async``, and its questions go through a
gate, which has its own threads and a short patience.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from pipestream.errors import TransientError

Answer = TypeVar("Answer")

_MOST_WAITING = 64


class TooSlow(TransientError):
    """A server did not answer within the time that a page waits."""


class Gate:
    """Lets a few questions through at a time. The same question is asked once, and all who wait share its answer."""

    def __init__(self, name: str, threads: int, patience_s: float, *, advice: str = "") -> None:
        """
        :param name: whom the questions are for, as a reader of the page knows it: Kafka, the ledger.
        :param advice: what a reader should know, and do, when there is no answer in time.
        """
        self._advice = f"; {advice}" if advice else ""
        self._name = name
        self._limiter = CapacityLimiter(threads)
        self._patience_s = patience_s
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._kept: dict[Hashable, tuple[float, Any]] = {}

    async def ask(
        self, key: Hashable, question: Callable[[], Answer], *, keep_s: float = 0.0, patience_s: float | None = None
    ) -> Answer:
        """Return the answer of ``question``, which runs in a thread.

        :param key: two questions of one key are the same question.
        :param keep_s: how long others get this answer too, without asking again.
        :param patience_s: how long to wait; that of the gate unless given.
        :raises TooSlow: there was no answer in time. The thread stays taken until there is one.
        """
        kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            answer: Answer = kept[1]
            return answer
        task = self._asked.get(key)
        if task is None:
            if len(self._asked) >= _MOST_WAITING:
                raise TooSlow(f"{self._name}: {_MOST_WAITING} questions wait for an answer already; try again later")
            task = asyncio.create_task(run_sync(question, limiter=self._limiter))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._close(key, done, keep_s))
        patience_s = self._patience_s if patience_s is None else patience_s
        try:
            # Shielded: others may wait for it, and a thread cannot be stopped anyway.
            answer = await asyncio.wait_for(asyncio.shield(task), patience_s)
        except TimeoutError:
            if task.done() and not task.cancelled() and isinstance(task.exception(), TimeoutError):
                raise
            raise TooSlow(f"{self._name} did not answer within {patience_s:g} s{self._advice}") from None
        return answer

    def _close(self, key: Hashable, done: asyncio.Task[Any], keep_s: float) -> None:
        self._asked.pop(key, None)
        now = time.monotonic()
        self._kept = {each: kept for each, kept in self._kept.items() if kept[0] > now}
        # Looking at the exception keeps asyncio from reporting it when nobody waits any more.
        if not done.cancelled() and done.exception() is None and keep_s:
            self._kept[key] = (now + keep_s, done.result())

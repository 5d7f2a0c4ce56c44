"""Work on several messages of a stream at once, with a bound.

A message counts until its answer was taken, so a client that does not read its answers is not read from either. When
the engine stops, no more is read; what was read is answered, and the call ends with UNAVAILABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from pipestream.errors import TransientError

Request = TypeVar("Request")
Answer = TypeVar("Answer")


# While one group is committed the next is processed, and what arrives meanwhile is the one after.
_MOST_GROUPS = 2


async def in_groups(
    requests: AsyncIterator[Request],
    is_quick: Callable[[Request], bool],
    answer: Callable[[list[Request]], Awaitable[list[Answer]]],
    window: int,
    stopping: asyncio.Event,
) -> AsyncIterator[Answer]:
    """Yield answers as they come, whatever the order of their requests.

    Quick requests that have arrived by the time one can be worked on are answered as a group: it costs much less than
    a task for each. Any other may take long, so each is a group of its own and holds up nobody.
    """
    free = asyncio.Semaphore(window)
    done: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    running: set[asyncio.Task[Any]] = set()
    groups = _Groups(answer, running, done.put_nowait)

    async def read() -> None:
        async for request in requests:
            await free.acquire()
            if is_quick(request):
                groups.add(request)
            else:
                _start(answer([request]), running, done.put_nowait)

    reader = _start(_until(read(), stopping), running, done.put_nowait)
    try:
        while running or not done.empty():
            task = await done.get()
            if task is not reader:
                for each in task.result():
                    yield each
                    free.release()
        reader.result()
    finally:
        groups.close()
        await _cancel(running)


class _Groups:
    """The quick requests of a stream: those that wait, and how many groups are being answered."""

    def __init__(
        self,
        answer: Callable[[list[Any]], Awaitable[list[Any]]],
        running: set[asyncio.Task[Any]],
        finished: Callable[[asyncio.Task[Any]], None],
    ) -> None:
        self._answer = answer
        self._running = running
        self._finished = finished
        self._waiting: list[Any] = []
        self._open = 0

    def add(self, request: Any) -> None:
        self._waiting.append(request)
        # With one waiting already, a group is about to begin or all are busy.
        if len(self._waiting) == 1:
            self._start()

    def close(self) -> None:
        """Begin no more groups."""
        self._waiting.clear()

    def _start(self) -> None:
        if self._waiting and self._open < _MOST_GROUPS:
            self._open += 1
            _start(self._answer_waiting(), self._running, self._end)

    async def _answer_waiting(self) -> list[Any]:
        # Taken here and not before: more may have arrived until this task began.
        taken, self._waiting = self._waiting, []
        return await self._answer(taken) if taken else []

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._open -= 1
        self._finished(task)
        self._start()


async def in_order(
    requests: AsyncIterator[Request],
    answer: Callable[[Request], Awaitable[Answer]],
    window: int,
    stopping: asyncio.Event,
) -> AsyncIterator[Answer]:
    """Yield answers in the order of their requests."""
    free = asyncio.Semaphore(window)
    waiting: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    running: set[asyncio.Task[Any]] = set()

    async def read() -> None:
        async for request in requests:
            await free.acquire()
            waiting.put_nowait(_start(answer(request), running))

    reader = _start(_until(read(), stopping), running, waiting.put_nowait)
    try:
        while (task := await waiting.get()) is not reader:
            yield await task
            free.release()
        reader.result()
    finally:
        await _cancel(running)


def _start(
    work: Awaitable[Any],
    running: set[asyncio.Task[Any]],
    finished: Callable[[asyncio.Task[Any]], None] = lambda _: None,
) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(work)

    def note(done: asyncio.Task[Any]) -> None:
        running.discard(done)
        finished(done)

    running.add(task)
    task.add_done_callback(note)
    return task


async def _until(reading: Any, stopping: asyncio.Event) -> None:
    """Read until there is nothing more, or until the engine stops."""
    read, stop = asyncio.ensure_future(reading), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((read, stop), return_when=asyncio.FIRST_COMPLETED)
        if not read.done():
            raise TransientError("the engine is stopping; send what was not answered to another one")
        read.result()
    finally:
        await _cancel({read, stop})


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    for task in list(tasks):
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task

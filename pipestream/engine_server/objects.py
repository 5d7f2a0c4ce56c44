"""Store the objects of many calls side by side: what waits is put together as soon as a place is free."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor

from pipestream.objects.store import ObjectStore

# Batches in progress at once. A batch is put by the store's own threads, so two keep them busy.
_BATCHES = 2
_MOST_OBJECTS = 256


class ObjectPutter:
    """Stores objects for coroutines of one loop."""

    def __init__(self, store: ObjectStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._waiting: list[tuple[list[tuple[str, bytes]], asyncio.Future[None]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, objects: Mapping[str, bytes]) -> None:
        """Return once the objects are stored.

        :raises StoreUnavailable, StoreRefused: as ``ObjectStore.put_many``.
        """
        if not objects:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((list(objects.items()), done))
        self._start()
        await done

    def _start(self) -> None:
        while self._waiting and len(self._running) < _BATCHES:
            batch, size = [], 0
            while self._waiting and size < _MOST_OBJECTS:
                batch.append(self._waiting.pop(0))
                size += len(batch[-1][0])
            task = asyncio.create_task(self._put(batch))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _put(self, batch: list[tuple[list[tuple[str, bytes]], asyncio.Future[None]]]) -> None:
        items = [item for objects, _ in batch for item in objects]
        error: BaseException | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._store.put_many, items)
        except Exception as raised:
            error = raised
        for _, done in batch:
            if done.done():  # whoever waited was cancelled
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

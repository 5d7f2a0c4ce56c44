"""Store the objects of many calls side by side: what waits is put together as soon as a place is free.

Documents that may go into a segment (``storage`` of their node) go into one with those of the other calls that are put
together. A segment is stored before any call that refers to it is submitted, and its name is drawn, as in a drain: if
the process dies in between, or a call is a repeat, nobody refers to that place, and the segment expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream import faults
from pipestream.engine.storing import store_results
from pipestream.objects.store import ObjectStore

if TYPE_CHECKING:
    from pipestream.drain.packing import Packer
    from pipestream.engine.carry import RecordResult

# Batches in progress at once. A batch is put by the store's own threads, so two keep them busy.
_BATCHES = 2
_MOST_OBJECTS = 256


@dataclass(frozen=True, slots=True)
class _Waiting:
    """What one call stores."""

    objects: Mapping[str, bytes]
    results: Sequence[tuple[Packer, RecordResult]]
    done: asyncio.Future[None]

    @property
    def size(self) -> int:
        return len(self.objects) + sum(len(result.objects) for _, result in self.results)


class ObjectPutter:
    """Stores objects for coroutines of one loop."""

    def __init__(self, store: ObjectStore, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._waiting: list[_Waiting] = []
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, objects: Mapping[str, bytes]) -> None:
        """Return once the objects are stored.

        :raises StoreUnavailable, StoreRefused: as ``ObjectStore.put_many``.
        """
        await self._put_soon(objects, ())

    async def put_results(self, results: Sequence[tuple[Packer, RecordResult]]) -> None:
        """Return once the objects of results are stored, by themselves or in segments.

        The outputs of those in segments refer to their places there afterwards. Raises as ``put``.
        """
        await self._put_soon({}, results)

    async def _put_soon(self, objects: Mapping[str, bytes], results: Sequence[tuple[Packer, RecordResult]]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(objects, results, done))
        self._start()
        await done

    def _start(self) -> None:
        while self._waiting and len(self._running) < _BATCHES:
            batch, size = [], 0
            while self._waiting and size < _MOST_OBJECTS:
                batch.append(self._waiting.pop(0))
                size += batch[-1].size
            task = asyncio.create_task(self._put(batch))
            self._running.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _put(self, batch: list[_Waiting]) -> None:
        error: BaseException | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._put_now, batch)
        except Exception as raised:
            error = raised
        for each in batch:
            if each.done.done():  # whoever waited was cancelled
                continue
            if error is None:
                each.done.set_result(None)
            else:
                each.done.set_exception(error)

    def _put_now(self, batch: Sequence[_Waiting]) -> None:
        by_packer: dict[Packer, list[RecordResult]] = {}
        for each in batch:
            for packer, result in each.results:
                by_packer.setdefault(packer, []).append(result)
        segments = [segment for packer, results in by_packer.items() for segment in packer.pack(results)]
        objects = [item for each in batch for item in each.objects.items()]
        store_results([result for each in batch for _, result in each.results], [*segments, *objects], self._store)
        if segments:
            faults.reach(faults.SEGMENTS_STORED)

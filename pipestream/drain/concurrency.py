"""Process the records of chunks side by side, where a node's ``concurrency`` allows it.

A record goes through its node and the nodes fused with it in one thread. Each module is called by as many threads at
once as its node says, so a function that takes one document at a time still does. Everything else about a call is as
for one: its deadline begins when its turn comes, its retries are its own, and the module's circuit breaker and limit of
calls count the calls of all threads.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from itertools import count
from typing import Generic, TypeVar

from pipestream.drain.overlap import InFlight
from pipestream.engine.process import Services
from pipestream.graph.model import Graph, Node
from pipestream.modules.module import Answer, Module, ModuleContext, ModuleProfile, profile_of
from pipestream.wire import PipeDoc

Item = TypeVar("Item")
Result = TypeVar("Result")


def widest(graph: Graph, node_ids: Iterable[str]) -> int:
    """Return how many records of a chunk are processed at once by a task that runs these nodes."""
    return max([1, *(graph.node_by_id[node_id].concurrency for node_id in node_ids)])


def limit_calls(services: Services, graph: Graph, node_ids: Sequence[str]) -> Services:
    """Return the services with each module limited to the calls at once that its nodes allow."""
    width = widest(graph, node_ids)
    if width == 1:
        return services
    most: dict[str, int] = {}
    for node in (graph.node_by_id[node_id] for node_id in node_ids):
        most[node.module] = max(most.get(node.module, 1), node.concurrency)
    turns = {module: threading.BoundedSemaphore(count) for module, count in most.items()}

    def module_of(node: Node) -> Module:
        return _TakingTurns(services.module_of(node), turns[node.module])

    return replace(services, module_of=module_of)


@dataclass(frozen=True, slots=True)
class _TakingTurns:
    """A module that is called by so many threads at once; the others wait."""

    module: Module
    turns: threading.BoundedSemaphore

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc] | Answer:
        with self.turns:
            return self.module.process(document, context)

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:
        return profile_of(self.module, context)

    def close(self) -> None:
        self.module.close()


class Begun(Generic[Result]):
    """The work on the items of a chunk, which goes on in the threads of ``Workers``."""

    def __init__(self, count: int, on_wait: Callable[[], None]) -> None:
        self._count = count
        self._on_wait = on_wait
        self._begun_at: list[float] = []
        self._runs: Sequence[Future[None]] = ()
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._sizes: dict[int, int] = {}

    def wait(self) -> list[Result]:
        """Return the results in the order of the items. Ask for those of one chunk after the other.

        :raises BaseException: the error of the first item that has one. Chunks behind it have no results.
        """
        self._on_wait()
        wait(self._runs)
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[index] for index in range(self._count)]

    @property
    def entering_s(self) -> float:
        """Return how long it took until the last item was begun, from the first one on."""
        return self._begun_at[-1] - self._begun_at[0] if self._begun_at else 0.0

    @property
    def size_bytes(self) -> int:
        """Return how many bytes of results were counted as in flight."""
        return sum(self._sizes.values())

    def run(self, runs: Sequence[Future[None]]) -> None:
        """Note who does the work."""
        self._runs = runs

    def enter(self) -> None:
        """Note that an item is begun."""
        self._begun_at[1:] = [time.monotonic()]

    def put(self, index: int, result: Result, size_bytes: int) -> None:
        self._results[index] = result
        self._sizes[index] = size_bytes

    def fail(self, index: int, error: BaseException) -> None:
        self._errors[index] = error


class Workers(Generic[Result]):
    """Works on the items of chunks, ``width`` items at once, in threads of a pool. It serves one pass over a range.

    Chunks are begun in their order. The items of a chunk are begun while the last ones of the chunk before it finish,
    so one slow item holds back neither the others of its chunk nor those behind it. Results that wait for such an item
    count as bytes in flight. While there are too many, only items of the first chunk are begun.
    """

    def __init__(
        self,
        pool: Executor,
        width: int,
        in_flight: InFlight | None = None,
        size_of: Callable[[Result], int] = lambda _: 0,
    ) -> None:
        """
        :param in_flight: counts the results as they come. Whoever takes them takes them off again.
        :param size_of: the bytes of a result.
        """
        self._pool = pool
        self._width = width
        self._in_flight = in_flight or InFlight(1)
        self._size_of = size_of
        self._numbers = count()
        self._first = 0
        self._failed = float("inf")
        self._guard = threading.Lock()

    def begin(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Begun[Result]:
        """Begin the work on the items of the next chunk, and return without waiting for it.

        After an error, no further item of the chunk or of a later one is begun. Those of earlier chunks are.
        """
        number = next(self._numbers)
        begun: Begun[Result] = Begun(len(items), lambda: self._wait_for(number))
        left = iter(range(len(items)))  # threads may share it: each call of next is atomic

        def run() -> None:
            while self._may_go_on(number) and (index := next(left, None)) is not None:
                begun.enter()
                try:
                    result = work(items[index])
                except BaseException as error:  # raised again by the thread that waits
                    begun.fail(index, error)
                    self.stop(number)
                else:
                    size_bytes = self._size_of(result)
                    begun.put(index, result, size_bytes)
                    self._in_flight.add(size_bytes)

        # A thread that finds no item left in a chunk goes on with the next one: what is submitted first is run first.
        runs = range(min(self._width, len(items)))
        begun.run([self._pool.submit(contextvars.copy_context().run, run) for _ in runs])
        return begun

    def stop(self, number: int = 0) -> None:
        """Begin no further item of this chunk and of those behind it; unless told, of none at all."""
        with self._guard:
            self._failed = min(self._failed, number)

    def _wait_for(self, number: int) -> None:
        """Note that a chunk is the first now: those before it are taken."""
        self._first = number
        self._in_flight.look_again()

    def _may_go_on(self, number: int) -> bool:
        """Wait while there is no room for further results; tell whether the chunk goes on."""
        self._in_flight.wait_for_room(lambda: number <= self._first or number >= self._failed)
        return number < self._failed

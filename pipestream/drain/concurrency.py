"""Process the records of a chunk side by side, where a node's ``concurrency`` allows it.

A record goes through its node and the nodes fused with it in one thread. Each module is called by as many threads at
once as its node says, so a function that takes one document at a time still does. Everything else about a call is as
for one: its deadline begins when its turn comes, its retries are its own, and the module's circuit breaker and limit of
calls count the calls of all threads.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from typing import TypeVar

from pipestream.engine.process import Services
from pipestream.graph.model import Graph, Node
from pipestream.modules.module import Answer, Module, ModuleContext, ModuleProfile, profile_of
from pipestream.settings import Settings
from pipestream.wire import PipeDoc

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


def widest(graph: Graph, node_ids: Iterable[str]) -> int:
    """Return how many records of a chunk are processed at once by a task that runs these nodes."""
    return max([1, *(graph.node_by_id[node_id].concurrency for node_id in node_ids)])


def limit_calls(services: Services, graph: Graph, node_ids: Sequence[str], settings: Settings) -> Services:
    """Return the services with each module limited to the calls at once that its nodes allow."""
    width = widest(graph, node_ids)
    if width == 1:
        return services
    most: dict[str, int] = {}
    for node in (graph.node_by_id[node_id] for node_id in node_ids):
        most[node.module] = max(most.get(node.module, 1), node.concurrency)
        if node.module.startswith("grpc:") and node.concurrency > settings.module_concurrency:
            log.warning(
                "node %s: concurrency %d, but the setting module_concurrency lets a process make %d calls at once",
                node.node_id, node.concurrency, settings.module_concurrency,
            )  # fmt: skip
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


def map_in_order(work: Callable[[Item], Result], items: Sequence[Item], pool: Executor, width: int) -> list[Result]:
    """Return the results of work on items, in their order; ``width`` of them are worked on at once.

    After an error no further item is begun, and the error of the first item that has one is raised.
    """
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    left = iter(range(len(items)))  # threads may share it: each call of next is atomic

    def run() -> None:
        while not errors and (index := next(left, None)) is not None:
            try:
                results[index] = work(items[index])
            except BaseException as error:  # raised again by the thread that waits
                errors[index] = error

    wait([pool.submit(contextvars.copy_context().run, run) for _ in range(min(width, len(items)))])
    if errors:
        raise errors[min(errors)]
    return [results[index] for index in range(len(items))]

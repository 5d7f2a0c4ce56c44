"""One version of a graph as an engine serves it: modules and conditions ready, or the problems that prevent it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from pipestream.deployment.versions import ActiveGraph
from pipestream.drain.packing import Packer
from pipestream.engine.process import Services
from pipestream.engine.services import open_services
from pipestream.errors import GraphInvalid, PipestreamError
from pipestream.graph.flow import destination_of
from pipestream.graph.model import Edge, Graph
from pipestream.graph.proto import BuiltGraph
from pipestream.modules.resolve import resolve_module
from pipestream.objects.store import ObjectStore
from pipestream.plugins import PluginContext
from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class Way:
    """What a stream meets from a node on, through fused edges."""

    problems: tuple[str, ...] = ()
    """Why nothing can be processed there."""
    is_blocking: bool = False
    """Whether a module or a remote engine is called, so that it must not run in the event loop."""


@dataclass(frozen=True)
class LocalGraph:
    """A graph whose nodes of some engine run here."""

    graph: Graph
    services: Services
    ways: dict[str, Way]
    packer: Packer


class ServedGraph:
    """An active version. It is closed when it was replaced and the last stream in flight has left it."""

    def __init__(self, active: ActiveGraph, settings: Settings, own_address: str, store: ObjectStore) -> None:
        self.version = active.version
        self.graph = active.built.graph
        self._built = active.built
        self._settings = settings
        self._own_address = own_address
        self._store = store
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._local: dict[str, LocalGraph] = {}
        self._users = 0
        self._is_replaced = False
        self.local_to(own_address)  # now, so that no call waits for it

    @property
    def own(self) -> LocalGraph:
        """Return the graph as this engine runs it."""
        return self._local[self._own_address]

    @property
    def digest(self) -> str:
        return self._built.digest

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the modules open for the block, also if the version is replaced meanwhile."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def enter(self) -> None:
        """Keep the modules open until ``leave``."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = self._is_replaced and not self._users
        if is_last:
            self._stack.close()

    def replaced(self) -> None:
        """Say that another version is served now."""
        with self._lock:
            self._is_replaced = True
            is_idle = not self._users
        if is_idle:
            self._stack.close()

    def is_open_for(self, engine: str) -> bool:
        """Tell whether the graph is ready as the engine of an address runs it."""
        return not engine or engine in self._local

    def local_to(self, engine: str) -> LocalGraph:
        """Return the graph as the engine of an address runs it: the nodes that live there are its own.

        An engine may be known under several addresses. Whoever calls it for a node says with the node's address
        under which one.
        """
        found = self._local.get(engine)
        if found is not None:
            return found
        with self._lock:
            if engine not in self._local:
                self._local[engine] = self._open({self._own_address, engine} - {""})
            return self._local[engine]

    def _open(self, own: set[str]) -> LocalGraph:
        nodes = tuple(replace(node, engine="") if node.engine in own else node for node in self.graph.nodes)
        graph = replace(self.graph, nodes=nodes)
        problems = _find_problems(graph, self._settings)
        usable = [node.node_id for node in nodes if node.node_id not in problems]
        built = BuiltGraph(self._built.digest, graph, self._built.content)
        # A caller is told at once that a module is down, and repeats the call. Waiting would take all threads.
        services = self._stack.enter_context(
            open_services(built, self._settings, usable, self._store, module_wait_s=0.0)
        )
        ways = {node.node_id: _way(graph, node.node_id, problems) for node in nodes}
        # An edge that leads nowhere has no topic. Nothing gets to it: it is a problem of its node.
        whole = replace(graph, edges=tuple(edge for edge in graph.edges if _leads_somewhere(edge, graph)))
        return LocalGraph(graph, services, ways, Packer(whole, self._settings))


def _find_problems(graph: Graph, settings: Settings) -> dict[str, list[str]]:
    """Return, for each node that cannot be processed, all that is wrong with it."""
    problems: dict[str, list[str]] = {}
    context = PluginContext(settings)
    wrong: dict[str, str] = {}
    for node in graph.nodes:
        if node.engine or not node.module:
            continue
        if node.module not in wrong:
            try:
                with closing(resolve_module(node.module, context)):
                    wrong[node.module] = ""
            except PipestreamError as error:
                wrong[node.module] = _module_problem(error)
        if wrong[node.module]:
            problems.setdefault(node.node_id, []).append(f"node {node.node_id}: {wrong[node.module]}")
    for edge in graph.edges:
        if not _leads_somewhere(edge, graph):
            problems.setdefault(edge.from_node_id, []).append(
                f"node {edge.from_node_id}: edge {edge.edge_id} leads to {edge.to_node_id}, which is not in the graph"
            )
    return problems


def _leads_somewhere(edge: Edge, graph: Graph) -> bool:
    return edge.is_cross_cluster or edge.to_node_id in graph.node_by_id


def _module_problem(error: PipestreamError) -> str:
    if isinstance(error, GraphInvalid):
        return "; ".join(problem.message for problem in error.problems)
    return str(error)


def _way(graph: Graph, node_id: str, problems: dict[str, list[str]]) -> Way:
    reached = {node_id: None}
    waiting = [node_id]
    found: list[str] = []
    while waiting:
        current = waiting.pop()
        found += problems.get(current, [])
        for edge in graph.edges_from.get(current, ()):
            is_known = _leads_somewhere(edge, graph)
            if is_known and destination_of(edge, graph).is_fused and edge.to_node_id not in reached:
                reached[edge.to_node_id] = None
                waiting.append(edge.to_node_id)
    nodes = [graph.node_by_id[each] for each in reached]
    return Way(tuple(found), any(node.module or node.engine for node in nodes))

"""Build what ``process_node`` needs, once per worker and graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from pipestream.engine.process import Services
from pipestream.graph.model import Graph, Node, Transport
from pipestream.modules.resolve import resolve_module
from pipestream.routing.conditions import compile_conditions
from pipestream.settings import Settings


@contextmanager
def open_services(graph: Graph, settings: Settings, entry_node_id: str) -> Iterator[Services]:
    """Yield the services for streams that enter at a node, and close its modules at the end.

    Every module that may run is found now: one that cannot be found is a fault of the installation, and must
    stop the run before it makes a dead letter of every document.

    :raises GraphInvalid: a module cannot be found.
    """
    with ExitStack() as stack:
        modules = {
            node.module: stack.enter_context(closing(resolve_module(node.module)))
            for node in fused_nodes(graph, entry_node_id)
        }
        yield Services(
            conditions=compile_conditions(graph, settings.cel_engine),
            module_of=lambda node: modules[node.module],
            cel_engine=settings.cel_engine,
            module_timeout_s=settings.module_timeout_s,
        )


def fused_nodes(graph: Graph, entry_node_id: str) -> list[Node]:
    """Return the nodes that run in one task with a node: itself and those behind gRPC edges."""
    found: dict[str, Node] = {}
    waiting = [entry_node_id]
    while waiting:
        node_id = waiting.pop()
        node = graph.node_by_id.get(node_id)
        if node is None or node_id in found:
            continue
        found[node_id] = node
        waiting += [e.to_node_id for e in graph.edges_from[node_id] if e.transport is Transport.GRPC]
    return list(found.values())

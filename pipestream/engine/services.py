"""Build what ``process_node`` needs, once per worker and graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache, partial

from pipestream.engine.blobs import BlobSource
from pipestream.engine.graph_conditions import Conditions, compile_conditions
from pipestream.engine.process import Services
from pipestream.engine.progress import GatewayProgress
from pipestream.errors import DocumentMissing, GraphInvalid, Problem
from pipestream.graph.model import Node
from pipestream.graph.proto import BuiltGraph
from pipestream.modules.resolve import resolve_module
from pipestream.modules.transports import EdgeTransport, open_transport
from pipestream.objects.store import ObjectStore, open_store
from pipestream.plugins import PluginContext
from pipestream.settings import Settings
from pipestream.telemetry.meter import PrometheusMeter
from pipestream.telemetry.tracing import flush_spans, setup_tracing
from pipestream.wire import PipeStream


@contextmanager
def open_services(
    version: BuiltGraph,
    settings: Settings,
    node_ids: Iterable[str],
    store: ObjectStore | None = None,
    *,
    module_wait_s: float | None = None,
    open_engine: Callable[[str, PluginContext], EdgeTransport] | None = None,
) -> Iterator[Services]:
    """Yield the services for a set of nodes, and close their modules at the end.

    Every module that may run is found now: one that cannot be found is a fault of the installation, and must
    stop the run before it makes a dead letter of every document.

    :param node_ids: for a drain, the node of its topic and those fused with it; for an engine, all that it serves.
    :param store: where parsers' blobs are; the one of the settings unless given, opened when it is first needed.
    :param module_wait_s: how long calls of a gRPC module that is down, or of an engine that is not ready, are held
        back; as the setting says unless given.
    :param open_engine: opens the transport to a node's engine; the one that its address names unless given.
    :raises GraphInvalid: a module or a transport cannot be found.
    """
    nodes = [version.graph.node_by_id[node_id] for node_id in node_ids]
    if module_wait_s is not None:
        settings = settings.model_copy(update={"module_wait_s": module_wait_s})
    context = PluginContext(settings)
    gateway = settings.gateway_url
    setup_tracing(settings, "pipestream")
    with ExitStack() as stack:
        stack.callback(flush_spans)
        modules = {
            spec: stack.enter_context(closing(resolve_module(spec, _allowing(widest, settings))))
            for spec, widest in _widest_of_modules(nodes).items()
        }
        engines = {
            target: stack.enter_context(
                closing(
                    _open_transports(
                        partial(open_engine or _open_transport, target, context),
                        max(1, *(node.concurrency for node in nodes if node.engine == target)),
                    )
                )
            )
            for target in dict.fromkeys(node.engine for node in nodes if node.engine)
        }
        meter = PrometheusMeter(version.graph.graph_id)
        fetch_many = (store or stack.enter_context(closing(_LazyStore(settings)))).get_many
        yield Services(
            conditions=_conditions(version, settings.cel_engine),
            module_of=lambda node: modules[node.module],
            engine_of=lambda node: engines[node.engine],
            cel_engine=settings.cel_engine,
            module_timeout_s=settings.module_timeout_s,
            graph_hash=version.digest,
            meter=meter,
            blobs=BlobSource(fetch_many, lambda: meter.timed("hydrate")),
            module_wait_s=settings.module_wait_s,
            progress=stack.enter_context(closing(GatewayProgress(gateway))) if gateway else None,
        )


def _widest_of_modules(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the modules of some nodes, each with the most calls at once that one of its nodes asks for."""
    widest: dict[str, int] = {}
    for node in nodes:
        if not node.engine:
            widest[node.module] = max(widest.get(node.module, 1), node.concurrency)
    return widest


def _allowing(calls: int, settings: Settings) -> PluginContext:
    """Return the context of a module that may be called so often at once: a node's own value wins over the setting."""
    if calls <= settings.module_concurrency:
        return PluginContext(settings)
    return PluginContext(settings.model_copy(update={"module_concurrency": calls}))


class _LazyStore:
    """The store of the settings, opened by the first parser that has a blob by reference."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: ObjectStore | None = None
        self._lock = threading.Lock()

    def get_many(self, keys: Sequence[str]) -> Sequence[bytes | DocumentMissing]:
        with self._lock:
            if self._store is None:
                self._store = open_store(self._settings.store_uri, self._settings)
        return self._store.get_many(keys)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


class _Transports:
    """Some transports to one engine, of which each thread that sends takes one that is free."""

    def __init__(self, first: EdgeTransport, open_next: Callable[[], EdgeTransport], most: int) -> None:
        self._open_next = open_next
        self._all = [first]
        self._free = [first]
        self._guard = threading.Lock()
        self._turns = threading.BoundedSemaphore(most)

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        with self._turns:
            transport = self._take()
            try:
                transport.process(stream, idempotency_key, timeout_s, deadline)
            finally:
                with self._guard:
                    self._free.append(transport)

    def close(self) -> None:
        with ExitStack() as stack:
            for transport in self._all:
                stack.callback(transport.close)

    def _take(self) -> EdgeTransport:
        with self._guard:
            if not self._free:
                self._all.append(self._open_next())
                self._free.append(self._all[-1])
            return self._free.pop()


def _open_transports(open_one: Callable[[], EdgeTransport], most: int) -> EdgeTransport:
    """Return a transport that ``most`` threads may use at once; one alone is used as it is."""
    first = open_one()
    return first if most == 1 else _Transports(first, open_one, most)


def _open_transport(engine: str, context: PluginContext) -> EdgeTransport:
    try:
        return open_transport(engine, context)
    except ValueError as error:
        raise GraphInvalid([Problem("graph", None, "engine", f"{engine!r} cannot be used: {error}")]) from error


# A worker runs many tasks, of few graphs; a handful covers a graph and the versions it had a moment ago.
@lru_cache(maxsize=8)
def _conditions(version: BuiltGraph, cel_engine: str) -> Conditions:
    """Compile a graph's conditions once per version and worker. They hold no document, so tasks may share them."""
    return compile_conditions(version.graph, cel_engine)

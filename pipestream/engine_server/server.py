"""Put an engine process together, and run it until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from pipestream.accepted import accepted_topic
from pipestream.engine.history import this_instance
from pipestream.engine_server import batch, service
from pipestream.engine_server.batch import HandoffBatches
from pipestream.engine_server.bridge import Bridge
from pipestream.engine_server.desk import Desk
from pipestream.engine_server.doors import Doors
from pipestream.engine_server.forward import Forwarder
from pipestream.engine_server.graphs import LiveGraphs
from pipestream.engine_server.handoff import Handoffs
from pipestream.engine_server.nodes import NodeCalls
from pipestream.engine_server.overview import Overview
from pipestream.engine_server.place import WorkerPlace
from pipestream.engine_server.service import EngineService
from pipestream.engine_server.slots import Slots
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import add_EngineV1ServiceServicer_to_server
from pipestream.gen.pipestream.live.v1.handoff_service_pb2_grpc import add_HandoffServiceServicer_to_server
from pipestream.kafka.broker import Broker
from pipestream.leases.open import open_lease_store
from pipestream.objects.store import open_store
from pipestream.rpc.server import RpcServer, ServerOptions, run_loop, server_options
from pipestream.settings import Settings
from pipestream.telemetry.dependencies import DependencyWatch
from pipestream.telemetry.endpoint import TelemetryEndpoint
from pipestream.telemetry.tracing import flush_spans, setup_tracing

log = logging.getLogger(__name__)

# New objects after which Python looks for cycles among them; 700 by default. A call keeps some fifty objects until its
# transaction is committed, and with hundreds in flight nearly every look finds nothing: that took an eighth of the CPU.
_GC_THRESHOLD = 10_000


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Where an engine process listens."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: a free one."""
    advertised: str = ""
    """host:port under which graphs name this engine; empty: where it listens."""
    metrics_port: int | None = None
    """Of ``/metrics`` and ``/health`` on ``telemetry_host``; None: no such endpoint."""
    place: WorkerPlace = WorkerPlace()  # noqa: RUF009 - it is frozen
    is_worker: bool = False
    """Whether a parent started it, which shares the port between its workers."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that takes calls."""

    address: str
    """Where it listens, host:port."""
    metrics: str
    """host:port of its metrics; empty: none."""
    overview: Overview
    graphs: LiveGraphs
    server: RpcServer

    async def stop(self) -> bool:
        """Refuse new calls and finish those that were accepted; tell whether all finished in time."""
        self.overview.stopping.set()
        return await self.server.stop()


@asynccontextmanager
async def running_engine(settings: Settings, options: EngineOptions) -> AsyncIterator[RunningEngine]:
    """Start an engine and yield it; at the end stop it, and give back its slots.

    1. Take the port: the peers of this process have to know it.
    2. Open what calls need: object store, lease store, graphs.
    3. Take slots of the accepted log.
    4. Listen, and say SERVING.
    """
    async with AsyncExitStack() as stack:
        server = RpcServer(_server_options(settings, options))
        address = f"{options.host}:{server.bind()}"
        advertised = options.advertised or address
        store = stack.enter_context(open_store(settings.store_uri, settings))
        leases = open_lease_store(settings)
        stack.callback(leases.close)
        graphs = LiveGraphs(settings, advertised, store)
        stack.push_async_callback(graphs.close)
        await graphs.start()
        slots = Slots(settings, options.place.address or advertised, options.place)
        await asyncio.to_thread(slots.start)
        stack.push_async_callback(asyncio.to_thread, slots.close, settings.grpc_stop_s)
        desk = Desk(settings, slots, store)
        stack.callback(desk.close)
        forwarder = Forwarder(settings)
        stack.push_async_callback(forwarder.close)
        instance = this_instance()
        topic = accepted_topic(settings.engine_name)
        checks: dict[str, Callable[[], object]] = {
            "Kafka": partial(Broker(settings).identify, topic),
            "the object store": partial(store.exists, topic),
        }
        dependencies = stack.enter_context(DependencyWatch(checks))
        count_active, stall_s = lambda: server.gate.active, settings.health_stall_s
        overview = Overview(graphs, slots, leases, desk.counts, instance, count_active, dependencies, stall_s)
        handoffs, nodes = Handoffs(desk, Doors(graphs, settings, instance)), NodeCalls(desk, graphs, instance)
        engine = EngineService(handoffs, nodes, Bridge(desk), overview, forwarder, settings.engine_stream_window)
        server.add(add_EngineV1ServiceServicer_to_server, engine, service.NAME)
        server.add(add_HandoffServiceServicer_to_server, HandoffBatches(engine), batch.NAME)
        metrics = ""
        if options.metrics_port is not None:
            endpoint = TelemetryEndpoint(settings.telemetry_host, options.metrics_port, overview.probe)
            metrics = stack.enter_context(endpoint).address
        await server.start()
        await server.set_serving(True)
        beating = asyncio.create_task(server.follow(overview.beat))
        stack.callback(beating.cancel)
        running = RunningEngine(address, metrics, overview, graphs, server)
        stack.push_async_callback(running.stop)
        yield running


def _server_options(settings: Settings, options: EngineOptions) -> ServerOptions:
    shared = server_options(settings, f"{options.host}:{options.port}", reuse_port=options.is_worker)
    return replace(shared, also=_own_address(options.host, options.place))


def serve(settings: Settings, options: EngineOptions, ready: Callable[[RunningEngine], None]) -> None:
    """Run an engine until SIGTERM or SIGINT, or until its parent is gone; then stop it gracefully.

    :param ready: called once it takes calls.
    """
    setup_tracing(settings, "pipestream-engine")

    async def main() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if options.is_worker:
            _watch_parent(lambda: loop.call_soon_threadsafe(stop.set))
        async with running_engine(settings, options) as engine:
            _spare_collector()
            ready(engine)
            await stop.wait()
            log.info("stopping: %d calls are in progress", engine.server.gate.active)

    run_loop(main())
    flush_spans()


def _spare_collector() -> None:
    """Let Python look for garbage less often, and never again among what was made until now, which stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


def _own_address(host: str, place: WorkerPlace) -> str:
    """Return where a worker listens for its peers; empty: it has none."""
    return f"{host}:{place.address.rpartition(':')[2]}" if place.address else ""


def _watch_parent(gone: Callable[[], object]) -> None:
    """Call back when standard input ends: it is a pipe of the parent, and closed when that dies."""

    def watch() -> None:
        # Not sys.stdin: Python cannot end while a thread waits in it.
        while os.read(0, 4_096):
            pass
        gone()

    threading.Thread(target=watch, name="parent", daemon=True).start()

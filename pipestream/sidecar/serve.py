"""The process of a sidecar: the worker in a thread, and the servers by which it is managed and watched."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

from pipestream.deployment.active import ActiveGraphs
from pipestream.deployment.versions import GraphVersions
from pipestream.errors import SettingsInvalid
from pipestream.gen.ai.pipestream.engine.sidecar.v1.management_service_pb2_grpc import (
    add_SidecarManagementServiceServicer_to_server,
)
from pipestream.ids import new_run_id
from pipestream.leases import open_lease_store
from pipestream.leases.names import name_holder
from pipestream.modules.transports import parse_engine
from pipestream.rpc.server import RpcServer, run_loop, server_options
from pipestream.settings import Settings
from pipestream.sidecar.management import SERVICE, ManagementService
from pipestream.sidecar.streams import SidecarStreams
from pipestream.stream.health import health_of
from pipestream.stream.recorder import Recorder
from pipestream.stream.worker import StreamWorker
from pipestream.telemetry.endpoint import TelemetryEndpoint

log = logging.getLogger(__name__)

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """How a sidecar is started."""

    address: str
    """Where it is managed, host:port; port 0 takes a free one."""
    telemetry_port: int = 0
    engine: str = ""
    """The address of an engine that processes the documents; empty: this process does."""
    max_leases: int | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """What a sidecar tells when its first round is done."""

    name: str
    port: int
    telemetry: str


def run_sidecar(settings: Settings, options: SidecarOptions, on_ready: Callable[[Ready], None]) -> None:
    """Drain what is to be drained until SIGTERM or SIGINT; then end at the end of a chunk.

    When it returns, everything that was drained is recorded, and all leases are given back.

    :param on_ready: called once the first round of the worker has succeeded.
    :raises SettingsInvalid: an address cannot be used.
    """
    if options.engine:
        _check_engine(options.engine)
    run_id = new_run_id("sidecar")
    with ExitStack() as stack:
        leases = stack.enter_context(closing(open_lease_store(settings)))
        graphs = ActiveGraphs(stack.enter_context(closing(GraphVersions(settings))))
        recorder = stack.enter_context(Recorder(settings))
        streams = SidecarStreams(settings, leases, graphs, recorder, run_id=run_id, engine=options.engine)
        worker = StreamWorker(
            settings,
            leases,
            streams.find_wanted,
            streams.open,
            name=name_holder(run_id),
            max_leases=options.max_leases,
        )
        run_loop(_serve(settings, options, worker, ManagementService(worker, streams), on_ready))


async def _serve(
    settings: Settings,
    options: SidecarOptions,
    worker: StreamWorker,
    management: ManagementService,
    on_ready: Callable[[Ready], None],
) -> None:
    stop = threading.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = RpcServer(server_options(settings, options.address))
    server.add(add_SidecarManagementServiceServicer_to_server, management, SERVICE)
    port = await server.start()
    health = partial(health_of, worker, stop, settings.health_stall_s)
    with TelemetryEndpoint(settings.telemetry_host, options.telemetry_port, health) as telemetry:
        working = asyncio.create_task(asyncio.to_thread(worker.run, stop))
        following: asyncio.Task[None] | None = None
        try:
            while not worker.rounds and not working.done():
                await asyncio.sleep(_POLL_S)
            if worker.rounds and not stop.is_set():
                await server.set_serving(True)
                following = asyncio.create_task(server.follow(health))
                on_ready(Ready(worker.name, port, telemetry.address))
            await working
        finally:
            if following is not None:
                following.cancel()
            # Also where on_ready fails: the process would wait for the worker's thread forever.
            stop.set()
            await asyncio.wait([working])
            await server.stop()


def _check_engine(engine: str) -> None:
    try:
        parse_engine(engine)
    except ValueError as error:
        raise SettingsInvalid(f"--engine {engine!r}: {error}") from None

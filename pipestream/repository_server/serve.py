"""Run the Repository: gRPC, HTTP and the relay in one process, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipestream.errors import SettingsInvalid
from pipestream.extras import needs_extra
from pipestream.gen.ai.pipestream.repository.pipedoc.v1 import pipedoc_service_pb2 as pb
from pipestream.gen.ai.pipestream.repository.pipedoc.v1 import pipedoc_service_pb2_grpc as services
from pipestream.repository_server.desk import Desk
from pipestream.repository_server.publisher import Publisher
from pipestream.repository_server.service import PipeDocServicer
from pipestream.rpc.server import RpcServer, server_options
from pipestream.telemetry.dependencies import DependencyWatch
from pipestream.telemetry.health import Health
from pipestream.telemetry.tracing import flush_spans, setup_tracing

if TYPE_CHECKING:
    from pipestream.settings import Settings

log = logging.getLogger(__name__)

SERVICE = pb.DESCRIPTOR.services_by_name["PipeDocService"].full_name
_POLL_S = 0.05
# Beyond the requests in work: connections without one, and requests that are being refused. Past them uvicorn answers
# 503 itself, and not in JSON.
_SPARE_CONNECTIONS = 1_000


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the server listens, host:port."""

    grpc: str
    http: str


async def serve(settings: Settings, wanted: Addresses, on_ready: Callable[[Addresses], None]) -> bool:
    """Serve until SIGTERM or SIGINT; then finish what was begun.

    1. Say NOT_SERVING and take no new calls. 2. Finish those in progress. 3. Publish what waits. 4. End.

    :param on_ready: called with the addresses once both listen.
    :return: whether everything in progress could finish.
    :raises SettingsInvalid: an address cannot be used.
    """
    setup_tracing(settings, "pipestream-repository")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    desk = Desk(settings)
    try:
        with Publisher(settings, desk.tables, desk.uploads, desk.datasources) as publisher:
            desk.on_recorded = publisher.wake
            with desk.watch_dependencies() as dependencies:
                return await _serve(desk, wanted, on_ready, stop, dependencies)
    finally:
        desk.close()
        flush_spans()


async def _serve(
    desk: Desk,
    wanted: Addresses,
    on_ready: Callable[[Addresses], None],
    stop: asyncio.Event,
    dependencies: DependencyWatch,
) -> bool:
    def find_health() -> Health:
        # Asked in the event loop, so an answer shows that it comes around.
        problems = (["it is stopping"] if stop.is_set() else []) + dependencies.problems()
        return Health(not problems, {"problems": problems} if problems else {})

    rpc = RpcServer(server_options(desk.settings, wanted.grpc))
    rpc.add(services.add_PipeDocServiceServicer_to_server, PipeDocServicer(desk), SERVICE)
    grpc_port = await rpc.start()
    web = _make_web(desk, wanted.http, find_health)
    running = asyncio.create_task(web.serve())
    following: asyncio.Task[None] | None = None
    try:
        while not web.started:
            if running.done():
                await running
                raise SettingsInvalid(f"cannot listen on {wanted.http}: is the port taken?")
            await asyncio.sleep(_POLL_S)
        await rpc.set_serving(True)
        following = asyncio.create_task(rpc.follow(find_health))
        http_port = web.servers[0].sockets[0].getsockname()[1]
        on_ready(Addresses(_with_port(wanted.grpc, grpc_port), _with_port(wanted.http, http_port)))
        await stop.wait()
        log.info("stopping")
    finally:
        is_finished = await rpc.stop()
        if following is not None:
            following.cancel()
        web.should_exit = True
        await running
    return is_finished


def _make_web(desk: Desk, address: str, find_health: Callable[[], Health]) -> Any:
    with needs_extra("live"):
        import uvicorn

        from pipestream.repository_server.http_app import HttpDesk

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # they are handled above, for both servers

    settings = desk.settings
    host, _, port = address.rpartition(":")
    tls: dict[str, Any] = {}
    if settings.grpc_tls_cert_file is not None:
        tls = {"ssl_certfile": settings.grpc_tls_cert_file, "ssl_keyfile": settings.grpc_tls_key_file}
        if settings.grpc_tls_client_ca_file is not None:
            tls |= {"ssl_ca_certs": str(settings.grpc_tls_client_ca_file), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return Server(
        uvicorn.Config(
            HttpDesk(desk, find_health).app(),
            host=host.strip("[]") or "127.0.0.1",
            port=int(port),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=settings.grpc_max_calls + _SPARE_CONNECTIONS,
            timeout_graceful_shutdown=max(1, int(settings.grpc_stop_s)),
            **tls,
        )
    )


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"

"""A gRPC server of the product: health, reflection, TLS, limits, graceful stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import grpc.aio

from pipestream.errors import SettingsInvalid
from pipestream.extras import needs_extra
from pipestream.rpc.gate import Gate
from pipestream.rpc.security import ServerSecurity, server_security

if TYPE_CHECKING:
    from pipestream.settings import Settings
    from pipestream.telemetry.health import Health

log = logging.getLogger(__name__)

Result = TypeVar("Result")

# Beyond the calls that may be in progress: those that are being refused, and health checks.
_SPARE_CALLS = 256
# How long after the last call the connections may take to close.
_CLOSE_S = 1.0
# How often gRPC's health takes over what the server's own health says.
_FOLLOW_S = 1.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a server listens, and how much it takes at once."""

    address: str
    """host:port; port 0 takes a free one."""
    max_calls: int
    max_message_bytes: int
    max_in_flight_bytes: int
    """Bytes of all requests in work; see ``grpc_in_flight_bytes``."""
    security: ServerSecurity = field(default_factory=ServerSecurity)
    stop_s: float = 30.0
    """How long a server that stops waits for the calls in progress."""
    reuse_port: bool = False
    """Several processes share the port."""
    also: str = ""
    """A second address, host:port, on which only this process listens."""


def server_options(settings: Settings, address: str, *, reuse_port: bool = False) -> ServerOptions:
    """Return the options that the settings give a server."""
    return ServerOptions(
        address,
        settings.grpc_max_calls,
        settings.grpc_max_message_bytes,
        settings.grpc_in_flight_bytes,
        server_security(settings),
        settings.grpc_stop_s,
        reuse_port,
    )


class RpcServer:
    """A grpc.aio server. Make it inside the running loop: add services, then ``start``."""

    def __init__(self, options: ServerOptions) -> None:
        with needs_extra("live"):
            from grpc_health.v1 import health, health_pb2, health_pb2_grpc

        self.options = options
        self.gate = Gate(options.max_calls, options.max_in_flight_bytes, options.security.token)
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=options.max_calls + _SPARE_CALLS,
            options=[
                ("grpc.max_receive_message_length", options.max_message_bytes),
                ("grpc.max_send_message_length", options.max_message_bytes),
                ("grpc.so_reuseport", int(options.reuse_port)),
                # Clients may look every 10 s whether a quiet connection still holds; grpc ends it by default.
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        self._status = health_pb2.HealthCheckResponse
        self._health = health.aio.HealthServicer()
        self._port: int | None = None
        self._services: list[str] = [health.SERVICE_NAME]
        self._server.add_generic_rpc_handlers((self.gate,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.gate)

    def add(self, register: Callable[[Any, Any], None], servicer: Any, service_name: str) -> None:
        """Add a service.

        :param register: the generated ``add_…Servicer_to_server``.
        :param service_name: its full name, for health and reflection.
        """
        register(servicer, self.gate)
        self._services.append(service_name)

    async def start(self) -> int:
        """Listen, and return the port. Health is NOT_SERVING until ``set_serving``.

        :raises SettingsInvalid: the address cannot be used, or a certificate cannot be read.
        """
        with needs_extra("live"):
            from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

        await self.set_serving(False)
        servicer = reflection.aio.ReflectionServicer((*self._services, reflection.SERVICE_NAME))
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, self.gate)
        port = self.bind()
        await self._server.start()
        return port

    def bind(self) -> int:
        """Take the port before ``start``, for those who must know it first; return it.

        :raises SettingsInvalid: the address cannot be used, or a certificate cannot be read.
        """
        if self._port is None:
            self._port = self._listen(self.options.address)
            if self.options.also:
                self._listen(self.options.also)
        return self._port

    def _listen(self, address: str) -> int:
        credentials = self.options.security.credentials()
        try:
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise SettingsInvalid(
                f"cannot listen on {address}: is the port taken, or a certificate not one? ({error})"
            ) from error

    async def set_serving(self, is_serving: bool) -> None:
        """Say to whoever watches the server's health whether it takes calls."""
        status = self._status.SERVING if is_serving else self._status.NOT_SERVING
        for service in ("", *self._services[1:]):
            await self._health.set(service, status)

    async def follow(self, find_health: Callable[[], Health]) -> None:
        """Say for as long as this runs what the server's own health says. It runs until it is cancelled."""
        while True:
            await self.set_serving(find_health().is_serving)
            await asyncio.sleep(_FOLLOW_S)

    async def stop(self) -> bool:
        """Stop: NOT_SERVING, refuse new calls, finish those in progress for up to ``stop_s``; then end them.

        :return: whether all calls in progress could finish.
        """
        await self._health.enter_graceful_shutdown()
        self.gate.close("the server is stopping; try again")
        stop_s = self.options.stop_s
        is_idle = await self.gate.wait_idle(stop_s)
        if not is_idle:
            log.warning("%d calls did not finish within %g s and are cancelled", self.gate.active, stop_s)
        await self._server.stop(_CLOSE_S)
        return is_idle


def run_loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a server's main coroutine, on uvloop where it is installed: it saves a tenth of the CPU time."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    result: Result = uvloop.run(main)
    return result

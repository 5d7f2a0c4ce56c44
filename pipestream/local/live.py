"""The product's own servers that are always on, as servers of the local stack."""

from __future__ import annotations

import sys
from abc import abstractmethod
from importlib import import_module

from pipestream.extras import needs_extra
from pipestream.local.ports import HOST
from pipestream.local.server import Launch, Server, Site
from pipestream.local.tools import Report, get_json
from pipestream.stop_times import stop_time_s


class LiveServer(Server):
    """One of them. Its first port is that of its service."""

    needs = ("kafka", "postgres", "s3", "consul")

    def __init__(self, site: Site, extra: dict[str, str]) -> None:
        super().__init__(site)
        self._extra = extra

    def stop_limit_s(self) -> float:
        return stop_time_s(self.name)

    @property
    def telemetry(self) -> str:
        """Return where it answers ``/health`` and ``/metrics``: its second port, unless it says otherwise."""
        return f"http://{HOST}:{getattr(self.site.ports, self.port_names[1])}"

    @property
    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The arguments of ``pipestream`` that start it."""

    def fetch(self, report: Report) -> None:  # noqa: ARG002
        with needs_extra("live"):
            import_module("grpc_health")

    def launch(self) -> Launch:
        return Launch((sys.executable, "-m", "pipestream.cli.main", *self.arguments), self._extra)

    def check(self) -> None:
        if get_json(f"{self.telemetry}/health")["status"] != "SERVING":
            raise ConnectionError(f"{self.name} does not serve yet")


class Engine(LiveServer):
    name = "engine"
    port_names = ("engine", "engine_metrics")

    @property
    def arguments(self) -> tuple[str, ...]:
        ports = self.site.ports
        # One process is enough to try it, and two cores are busy already.
        options = ("--workers", "1", "--port", str(ports.engine), "--metrics-port", str(ports.engine_metrics))
        return ("engine", "serve", *options)


class Repository(LiveServer):
    name = "repository"
    port_names = ("repository", "repository_grpc")

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def telemetry(self) -> str:
        return self.address

    @property
    def arguments(self) -> tuple[str, ...]:
        options = ("--http", f"{HOST}:{self.port}", "--grpc", f"{HOST}:{self.site.ports.repository_grpc}")
        return ("repository", "serve", *options)


class Sidecar(LiveServer):
    name = "sidecar"
    port_names = ("sidecar", "sidecar_metrics")

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("sidecar", "--address", self.address, "--telemetry-port", str(self.site.ports.sidecar_metrics))

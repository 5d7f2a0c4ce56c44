"""``pipestream engine``: the gRPC fast path into graphs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import examples, read_settings

if TYPE_CHECKING:
    from pipestream.engine_server.server import EngineOptions, RunningEngine

_WORKER = "--place"

HostOption = Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 for every interface.")]
PortOption = Annotated[int, typer.Option(min=0, max=65_535, help="The port of the service; 0 takes a free one.")]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes behind the port. One per core unless given.")
]
AdvertisedOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="How graphs and other machines name this engine. Where it listens.")
]
MetricsOption = Annotated[
    int | None, typer.Option(min=0, max=65_535, help="Port of /metrics and /health over HTTP; none unless given.")
]
PlaceOption = Annotated[str, typer.Option(_WORKER, hidden=True, help="The place of a worker; its parent gives it.")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Serve the Engine: take documents over gRPC and process them at once.")
    group.command(
        epilog=examples(
            "pipestream engine serve",
            "pipestream engine serve --host 0.0.0.0 --port 50051 --workers 4 --metrics-port 9464",
            "grpcurl -plaintext 127.0.0.1:50051 ai.pipestream.engine.v1.EngineV1Service/GetHealth",
        )
    )(serve)
    app.add_typer(group, name="engine")


def serve(
    host: HostOption = "127.0.0.1",
    port: PortOption = 50051,
    workers: WorkersOption = None,
    advertised: AdvertisedOption = "",
    metrics_port: MetricsOption = None,
    place: PlaceOption = "",
) -> None:
    """Serve EngineV1Service for all applied graphs, until SIGTERM or Ctrl-C.

    It prints one line when it takes calls. When it is told to stop it refuses new calls and finishes those that it has
    accepted.
    """
    from pipestream.engine_server.place import WorkerPlace
    from pipestream.engine_server.server import EngineOptions
    from pipestream.engine_server.server import serve as serve_process
    from pipestream.stop_times import worker_stop_s
    from pipestream.telemetry.logs import setup_logging

    settings = read_settings()
    setup_logging(settings)
    count = workers or os.cpu_count() or 1
    if place:
        own = WorkerPlace.parse(place)
        # Processes of one port report all of them together, so one endpoint is enough.
        own_metrics = metrics_port if own.index == 0 else None
        say = _say_ready if own.index == 0 else lambda _: None
        serve_process(settings, EngineOptions(host, port, advertised, own_metrics, own, is_worker=True), say)
    elif count == 1:
        serve_process(settings, EngineOptions(host, port, advertised, metrics_port), _say_ready)
    else:
        _run_workers(EngineOptions(host, port, advertised, metrics_port), count, worker_stop_s("engine", settings))


def _say_ready(engine: RunningEngine) -> None:
    metrics = f", metrics on http://{engine.metrics}/metrics" if engine.metrics else ""
    sys.stdout.write(f"engine ready on {engine.address} (pid {os.getpid()}){metrics}\n")
    sys.stdout.flush()


def _run_workers(options: EngineOptions, count: int, stop_s: float) -> None:
    import tempfile

    from pipestream.engine_server.place import WorkerPlace
    from pipestream.engine_server.workers import reserved_ports, run_workers
    from pipestream.telemetry.endpoint import SHARED_FOLDER_VARIABLE

    def command(place: WorkerPlace) -> list[str]:
        line = [sys.executable, "-m", "pipestream.cli.main", "engine", "serve", "--host", options.host]
        line += ["--port", str(port), "--advertised", options.advertised, _WORKER, place.to_text()]
        return line + (["--metrics-port", str(options.metrics_port)] if options.metrics_port is not None else [])

    with reserved_ports(options.host, [options.port]) as (port,), tempfile.TemporaryDirectory() as folder:
        os.environ[SHARED_FOLDER_VARIABLE] = folder
        advertised_host = options.advertised.rpartition(":")[0] or options.host
        code = run_workers(command, count, listen_host=options.host, advertised_host=advertised_host, stop_s=stop_s)
    raise typer.Exit(code)

"""``pipestream metrics``: what Prometheus reads of topics, leases and dead letters."""

from __future__ import annotations

from typing import Annotated

import typer

from pipestream.cli.options import examples, read_settings
from pipestream.cli.output import note

PORT = 9464


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("pipestream metrics", f"pipestream metrics --serve --port {PORT}"))(metrics)


def metrics(
    serve: Annotated[bool, typer.Option("--serve", help="Answer Prometheus until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option(help="Port to serve on; 0 takes a free one.", min=0, max=65_535)] = PORT,
) -> None:
    """Show lag, age of the oldest record, leases and dead letters of all applied graphs, as Prometheus reads them.

    Every server has metrics of its own work at its own port. These are the ones that no server can count: they are
    asked of Kafka, the ledger and the lease store at every scrape. One exporter per installation is enough.
    """
    import signal
    import sys
    from contextlib import closing

    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

    from pipestream.deployment.versions import GraphVersions
    from pipestream.graph.model import Graph
    from pipestream.leases import open_lease_store
    from pipestream.telemetry.endpoint import TelemetryEndpoint
    from pipestream.telemetry.health import Health
    from pipestream.telemetry.logs import setup_logging
    from pipestream.views.exporter import StandingCollector
    from pipestream.views.standing import StandingView

    settings = read_settings()
    if serve:
        setup_logging(settings)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:

        def find_graphs() -> list[Graph]:
            return [graph for graph_id in versions.graph_ids() if (graph := versions.active(graph_id)) is not None]

        collector = StandingCollector(StandingView(settings, leases), find_graphs)
        if not serve:
            registry = CollectorRegistry()
            registry.register(collector)
            sys.stdout.write(generate_latest(registry).decode())
            return
        REGISTRY.register(collector)
        # Blocked before there are other threads: a signal that another thread gets does not wake this one.
        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        with TelemetryEndpoint(settings.telemetry_host, port, lambda: Health(True)) as endpoint:
            note(f"metrics are ready at http://{endpoint.address}/metrics")
            signal.sigwait(ends)

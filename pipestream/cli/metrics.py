"""``pipestream metrics``: what Prometheus reads of topics, leases, dead letters and the ledger."""

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
    """Show what waits and what was drained of all applied graphs, as Prometheus reads it: lag, leases, totals.

    Every server has metrics of its own work at its own port. These are the ones that no server can count: they are
    asked of Kafka, the ledger and the lease store at every scrape. Batch runs are among them: a run ends before anybody
    scrapes it, and the ledger keeps what it did. One exporter per installation is enough.
    """
    import signal
    import sys
    from contextlib import closing

    ends = {signal.SIGTERM, signal.SIGINT}
    if serve:
        # Before there are other threads, which pyarrow starts as it is imported: a signal that another thread gets does
        # not wake this one.
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)

    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

    from pipestream.deployment.versions import GraphVersions
    from pipestream.graph.model import Graph
    from pipestream.leases import open_lease_store
    from pipestream.ledger import Ledger
    from pipestream.telemetry.endpoint import TelemetryEndpoint
    from pipestream.telemetry.health import Health
    from pipestream.telemetry.logs import setup_logging
    from pipestream.views.exporter import DrainedCollector, StandingCollector
    from pipestream.views.standing import StandingView
    from pipestream.views.totals import DrainTotals

    settings = read_settings()
    if serve:
        setup_logging(settings)
    with closing(open_lease_store(settings)) as leases, closing(GraphVersions(settings)) as versions:

        def find_graphs() -> list[Graph]:
            return [graph for graph_id in versions.graph_ids() if (graph := versions.active(graph_id)) is not None]

        registry = REGISTRY if serve else CollectorRegistry()
        registry.register(StandingCollector(StandingView(settings, leases), find_graphs))
        registry.register(DrainedCollector(DrainTotals(Ledger(settings)), find_graphs))
        if not serve:
            sys.stdout.write(generate_latest(registry).decode())
            return
        with TelemetryEndpoint(settings.telemetry_host, port, lambda: Health(True)) as endpoint:
            note(f"metrics are ready at http://{endpoint.address}/metrics")
            signal.sigwait(ends)

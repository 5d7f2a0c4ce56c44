"""``pipestream repository``: the Repository as a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import examples, read_settings
from pipestream.cli.output import say

if TYPE_CHECKING:
    from pipestream.repository_server.serve import Addresses

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}", re.ASCII)


def _check_address(text: str) -> str:
    if not _ADDRESS.fullmatch(text) or int(text.rpartition(":")[2]) > 65_535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return text


def add_to(app: typer.Typer) -> None:
    commands = typer.Typer(help="Take documents in over gRPC and HTTP, and give them back.", no_args_is_help=True)
    commands.command(
        epilog=examples(
            "pipestream repository serve",
            "pipestream repository serve --grpc 0.0.0.0:50061 --http 0.0.0.0:8090",
        )
    )(serve)
    app.add_typer(commands, name="repository")


def serve(
    grpc: Annotated[
        str, typer.Option(metavar="HOST:PORT", parser=_check_address, help="Where PipeDocService listens.")
    ] = "127.0.0.1:50061",
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", parser=_check_address, help="Where uploads and webhooks are taken.")
    ] = "127.0.0.1:8090",
) -> None:
    """Serve documents over gRPC (PipeDocService) and take uploads and webhooks over HTTP, until SIGTERM.

    The datasources are those of the applied graphs; a graph that is applied later is known within seconds. Uploads are
    published to their intake topics exactly once. Port 0 takes a free port; the line that says "ready" names it.
    """
    from pipestream.repository_server.serve import Addresses
    from pipestream.repository_server.serve import serve as run
    from pipestream.rpc.server import run_loop
    from pipestream.telemetry.logs import setup_logging

    settings = read_settings()
    setup_logging(settings)

    def tell(found: Addresses) -> None:
        say(f"ready: grpc {found.grpc} http {found.http}")

    if not run_loop(run(settings, Addresses(grpc, http), tell)):
        raise typer.Exit(1)

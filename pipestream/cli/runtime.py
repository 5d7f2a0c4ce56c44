"""``pipestream runtime``: make a Python function a program behind a Unix socket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipestream.cli.options import examples
from pipestream.cli.output import note

_SOCKET = Path("/tmp/sockets/app.sock")  # noqa: S108 - the default of the runtimes of actors, shared by two containers


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command(
        epilog=examples(
            "pipestream runtime serve acme.invoices:classify --socket /run/acme/invoices.sock",
            "pipestream runtime serve acme.invoices:classify --actor classify --memory-mb 2048",
        )
    )(serve)
    app.add_typer(group, name="runtime", help="Make a Python function a program behind a Unix socket.")


def serve(
    function: Annotated[str, typer.Argument(metavar="PACKAGE.MODULE:FUNCTION", help="The function to serve.")],
    socket: Annotated[
        Path, typer.Option(help="Where to listen. The file runtime-ready is written next to it.")
    ] = _SOCKET,
    actor: Annotated[
        str, typer.Option(help="Refuse envelopes whose current actor is another one (route_mismatch).")
    ] = "",
    memory_mb: Annotated[int, typer.Option(min=0, help="Address space of this process in MB; 0: no limit.")] = 0,
) -> None:
    """Serve a function until SIGTERM or Ctrl-C: one document after the other, as payload or in an envelope.

    A function of two arguments gets a PipeDoc and a ModuleContext, as that of a python: module does. A function of one
    argument gets the payload as JSON values. A graph names the program unix:/PATH/TO.sock. To let Pipestream
    start and watch it, name the function runtime:PACKAGE.MODULE:FUNCTION instead; then this command is not needed.
    """
    from pipestream.modules.runtime.serve import limit_memory, serve_function

    limit_memory(memory_mb)
    note(f"serving {function} at {socket}")
    serve_function(function, socket, actor)

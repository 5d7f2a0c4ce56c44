"""The command line ``pipestream``.

Ends with 0 (done), 1 (failed, and the same command may succeed later), 2 (failed for good, or wrong usage) or
130 (interrupted). Commands import what they need when they run, so that ``--help`` answers at once.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pipestream import __version__
from pipestream.cli import demo, dlq, drain, graph, ingest, leases, ledger, settings, stack, topics
from pipestream.cli.output import console
from pipestream.errors import PipestreamError, TransientError

INTERRUPTED = 130

app = typer.Typer(
    name="pipestream",
    help="Move documents through a processing graph in batches that lose nothing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (demo, stack, graph, ingest, drain, dlq, ledger, leases, topics, settings):
    part.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"pipestream {__version__}\n")
        raise typer.Exit


@app.callback()
def _start(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on stderr.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Our own errors are told in words, without a traceback."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="pipestream")
    except PipestreamError as error:
        return explain(error)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return 0


def explain(error: PipestreamError) -> int:
    """Tell an error on stderr, and return the exit code it deserves."""
    transient = bool(getattr(error, "transient", isinstance(error, TransientError)))
    target = console(stderr=True)
    target.print("error:", style="bold red", end=" ")
    target.print(str(error), style="red", markup=False)
    if transient:
        target.print("This may pass: the same command can be tried again.", style="yellow")
    return 1 if transient else 2


if __name__ == "__main__":
    sys.exit(main())

"""The command line ``pipestream``.

Ends with 0 (done), 1 (failed, and the same command may succeed later), 2 (failed for good, or wrong usage) or
130 (interrupted). Commands import what they need when they run, so that ``--help`` answers at once.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipestream.cli import (
    airflow,
    backfill,
    demo,
    dlq,
    documents,
    drain,
    engine,
    graph,
    ingest,
    leases,
    ledger,
    metrics,
    plugins,
    read,
    repository,
    runtime,
    samples,
    settings,
    sidecar,
    spark,
    stack,
    topics,
)
from pipestream.cli.output import console
from pipestream.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseStoreUnavailable,
    PipestreamError,
)
from pipestream.project import modules_folder
from pipestream.version import VERSION

_SERVER_SETTINGS: dict[type[PipestreamError], str] = {
    BrokerUnavailable: "KAFKA_BOOTSTRAP",
    DatabaseUnavailable: "POSTGRES_DSN",
    LeaseStoreUnavailable: "CONSUL_ADDRESS",
}

_INTERRUPTED = 130

app = typer.Typer(
    name="pipestream",
    help="Move documents through a processing graph in batches that lose nothing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (
    demo,
    stack,
    airflow,
    graph,
    samples,
    ingest,
    drain,
    engine,
    sidecar,
    spark,
    backfill,
    dlq,
    ledger,
    documents,
    repository,
    leases,
    topics,
    metrics,
    plugins,
    runtime,
    read,
    settings,
):
    part.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"pipestream {VERSION}\n")
        raise typer.Exit


@app.callback()
def _start(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on stderr.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    # After everything else, as an editable install has it: a module of a graph must not hide a library.
    modules = str(modules_folder(Path.cwd()))
    if modules not in sys.path:
        sys.path.append(modules)
    level = logging.INFO if verbose else logging.ERROR
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if not verbose:
        # If a broker is gone, its client logs a hundred lines above the one that says what to do.
        logging.getLogger("pipestream.kafka.clients").setLevel(logging.CRITICAL)
        # Only that it waits for a broker, so that a command is not silent for half a minute.
        logging.getLogger("pipestream.kafka.errors").setLevel(logging.WARNING)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Our own errors are printed as a message, without a traceback."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="pipestream")
    except PipestreamError as error:
        return explain(error)
    except SystemExit as exit_:
        if exit_.code == _INTERRUPTED:
            console(stderr=True).print("interrupted; nothing is lost, and the same command can be run again")
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return 0


def explain(error: PipestreamError) -> int:
    """Print an error on stderr, and return its exit code."""
    target = console(stderr=True)
    target.print("error:", style="bold red", end=" ")
    target.print(str(error), style="red", markup=False)
    if hint := _server_hint(error):
        target.print(hint, style="yellow", markup=False)
    elif error.transient:
        target.print("This may be temporary: try the same command again.", style="yellow")
    return 1 if error.transient else 2


def _server_hint(error: PipestreamError) -> str:
    """Return what to do about a server that does not answer; empty if the user has set its address."""
    from pipestream.settings import CONFIG_VARIABLE, ENV_PREFIX, STACK_FOLDER

    variable = next((ENV_PREFIX + name for kind, name in _SERVER_SETTINGS.items() if isinstance(error, kind)), "")
    if not variable or variable in os.environ or CONFIG_VARIABLE in os.environ:
        return ""
    stack_file = STACK_FOLDER / "stack.toml"
    if stack_file.is_file():
        return (
            f"The address is from {stack_file}, which `pipestream up` wrote: `pipestream status` shows whether that "
            f"stack runs, and `pipestream up` starts it."
        )
    return (
        f"There is no {stack_file} below this folder, so the default address was tried: run `pipestream up`, or set "
        f"{variable} (or {CONFIG_VARIABLE}, to name a file of settings)."
    )


if __name__ == "__main__":
    sys.exit(main())

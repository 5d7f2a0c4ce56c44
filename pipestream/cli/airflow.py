"""``pipestream airflow``: Airflow's own command line, configured for the local stack."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestream.cli.options import examples

if TYPE_CHECKING:
    from pipestream.local import Stack


def add_to(app: typer.Typer) -> None:
    app.command(
        # What follows is Airflow's, options included.
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        epilog=examples(
            "pipestream airflow dags test pipestream_sample",
            "pipestream airflow backfill create --dag-id pipestream_sample --from-date 2026-03-01 --to-date 2026-03-02",
        ),
    )(airflow)


def airflow(
    arguments: Annotated[list[str], typer.Argument(metavar="ARGS…", help="Arguments for Airflow, as after `airflow`.")],
) -> None:
    """Run Airflow's command line with the stack's home, database, DAGs and Spark connection.

    The stack must be up; `pipestream up --no-airflow` is enough. The exit code is Airflow's.
    """
    from pipestream.local import Stack, load_spec

    environment = _prepare(Stack(load_spec()))
    program = str(Path(sys.executable).parent / "airflow")
    sys.stdout.flush()
    # Replaces this process, so that signals, the terminal and the exit code are Airflow's own.
    os.execve(program, [program, *arguments], environment)  # noqa: S606 - no shell is wanted


def _prepare(stack: Stack) -> dict[str, str]:
    """Return the environment. The first call creates Airflow's database."""
    import psycopg

    from pipestream.errors import StackError

    try:
        return stack.prepare_airflow()
    except psycopg.OperationalError as error:
        raise StackError(
            f"PostgreSQL of the stack in {stack.spec.folder} does not answer, and Airflow needs it; run `pipestream up`"
        ) from error

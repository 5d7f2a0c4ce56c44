"""``pipestream up``, ``down``, ``status`` and ``fetch``: the local stack."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from pipestream.cli.options import JsonOption, examples
from pipestream.cli.output import emit_json, note, say, show_table

if TYPE_CHECKING:
    from pipestream.local import ServerStatus, Stack

_STYLES = {"running": "green", "unresponsive": "yellow", "crashed": "red", "stopped": "dim"}


class Profile(StrEnum):
    """Which servers a stack has."""

    EMBEDDED = "embedded"
    FULL = "full"


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog=examples("pipestream up", "pipestream up --profile full", "pipestream up --no-airflow --free-ports")
    )(up)
    app.command(epilog=examples("pipestream down", "pipestream down --json"))(down)
    app.command(epilog=examples("pipestream status", "pipestream status --json"))(status)
    app.command(epilog=examples("pipestream fetch", "pipestream fetch --profile full"))(fetch)


ProfileOption = Annotated[
    Profile | None,
    typer.Option(
        help="embedded: Kafka, PostgreSQL and folders; full: also Consul, S3 and Spark. A folder keeps its profile."
    ),
]


def up(
    profile: ProfileOption = None,
    airflow: Annotated[bool, typer.Option(help="Start Airflow with its web pages as well.")] = True,
    live: Annotated[bool, typer.Option(help="Start Engine, Repository and sidecar as well.")] = True,
    free_ports: Annotated[
        bool,
        typer.Option(
            "--free-ports", help="Use free ports instead of the usual ones, the same at each start if possible."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Start the local stack. Servers that are already running stay as they are.

    All of its state is in .pipestream below the current folder (PIPESTREAM_STACK_FOLDER names another). Commands
    run in this folder then find the stack by themselves. DAGs and graphs are in dags/, Python modules in modules/; a
    folder without dags/ gets them, with the sample graph.
    """
    from pipestream.local import Stack, load_spec
    from pipestream.settings import CONFIG_VARIABLE, STACK_FOLDER

    chosen = profile.value if profile else None
    stack = Stack(load_spec(profile=chosen, airflow=airflow, live=live, free_ports=free_ports))
    started = stack.up(note)
    servers = stack.status()
    if json:
        emit_json({"started": started, **_stack_values(stack, servers)})
        return
    _show(servers)
    if any(server.name == "airflow" for server in servers):
        user, _ = stack.airflow_login()
        passwords = stack.spec.folder / "airflow" / "passwords.json"
        say(f"Airflow: {_address(servers, 'airflow')}  user {user}, password in {passwords}")
    say(f"Settings: {stack.config_file}")
    if stack.config_file != (STACK_FOLDER / "stack.toml").absolute():
        say(f"For other commands to find this stack: export {CONFIG_VARIABLE}={stack.config_file}")
    say("Stop it with: pipestream down")


def down(json: JsonOption = False) -> None:
    """Stop the local stack. Its data stays, so the next up continues where it was."""
    from pipestream.live.owner import stop_all
    from pipestream.live.spec import Place
    from pipestream.local import Stack, load_spec
    from pipestream.stop_times import stop_time_s

    stack = Stack(load_spec())
    stopped = stack.down(note)
    # Servers that Airflow kept up outlive it, in case it comes back.
    stopped += stop_all(Place(stack.spec.folder / "live"), wait_s=stop_time_s("", note))
    if json:
        emit_json({"stopped": stopped})


def status(json: JsonOption = False) -> None:
    """Show each server of the local stack; ends with 1 unless all are running."""
    from pipestream.local import Stack, load_spec

    stack = Stack(load_spec())
    servers = stack.status()
    if json:
        emit_json(_stack_values(stack, servers))
    else:
        _show(servers)
    if any(server.state != "running" for server in servers):
        raise typer.Exit(1)


def fetch(profile: ProfileOption = None) -> None:
    """Download or build the servers' programs into the user's cache, and start nothing.

    Use it for images and for work without a network. The first `pipestream up` is then as fast as the second.
    """
    from pipestream.local import Stack, load_spec

    names = Stack(load_spec(profile=profile.value if profile else None)).fetch(note)
    say(f"ready to start: {', '.join(names)}")


def _stack_values(stack: Stack, servers: list[ServerStatus]) -> dict[str, object]:
    return {"folder": stack.spec.folder, "settings": stack.config_file, "servers": servers}


def _show(servers: list[ServerStatus]) -> None:
    show_table(
        ["server", "state", "pid", "address", "log"],
        [
            [
                server.name,
                Text(server.state, style=_STYLES[server.state]),
                "-" if server.pid is None else str(server.pid),
                server.address,
                server.log,
            ]
            for server in servers
        ],
        fold=["log"],
    )


def _address(servers: list[ServerStatus], name: str) -> str:
    return next(server.address for server in servers if server.name == name)

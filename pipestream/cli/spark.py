"""``pipestream spark``: a Spark that is kept up for drains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pipestream.cli.options import examples, read_settings
from pipestream.cli.output import note
from pipestream.errors import SettingsInvalid

HostOption = Annotated[str, typer.Option(help="Where to listen. Beyond this machine only behind a proxy with TLS.")]
PortOption = Annotated[int, typer.Option(min=1, max=65_535, help="The port of the server.")]
MasterOption = Annotated[
    str, typer.Option(help="The Spark master of the drains. The setting spark_master, unless given; else local[8].")
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Spark configuration; may be repeated."),
]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Keep a Spark up, so that drains need not start one.")
    group.command(
        epilog=examples(
            "pipestream spark serve",
            "pipestream spark serve --master spark://spark.example.com:7077 --conf spark.cores.max=8",
            "pipestream spark serve --port 15002 --conf spark.ui.enabled=true",
        )
    )(serve)
    app.add_typer(group, name="spark")


def serve(
    host: HostOption = "127.0.0.1", port: PortOption = 15002, master: MasterOption = "", conf: ConfOption = None
) -> None:
    """Run a Spark Connect server for drains, until SIGTERM or Ctrl-C.

    Drains use it if spark_connect_url names it (sc://HOST:PORT). Their Python workers have the settings and the
    PYTHONPATH of this command. Whoever reaches the port and knows spark_connect_token runs code as this user.
    """
    from pipestream.local.spark import spark_programs_environment
    from pipestream.local.spark_connect import LOCAL_MASTER, TOKEN_VARIABLE, connect_command
    from pipestream.project import python_path
    from pipestream.rpc.spark_connect import LOOPBACK

    settings = read_settings()
    if settings.spark_connect_token is None:
        raise SettingsInvalid(
            "spark_connect_token is not set, and whoever reaches the port runs code; set "
            "PIPESTREAM_SPARK_CONNECT_TOKEN to a long random text, for this server and for its clients"
        )
    if host not in LOOPBACK:
        note(f"listening on {host} in plain text: let only a proxy with TLS, or a network of its own, reach the port")
    # The setting's default is one process of two threads. That is enough for one drain; all drains together need more.
    of_settings = settings.spark_master if "spark_master" in settings.model_fields_set else LOCAL_MASTER
    command = connect_command(host, port, master or of_settings, _read_options(conf or []))
    token = {TOKEN_VARIABLE: settings.spark_connect_token.get_secret_value()}
    environment = {**os.environ, **spark_programs_environment(), "PYTHONPATH": python_path(Path.cwd()), **token}
    os.execve(command[0], command, environment)  # noqa: S606


def _read_options(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if wrong := [name for name, mark, _ in pairs if not mark or not name.startswith("spark.")]:
        raise typer.BadParameter(f"--conf takes spark.NAME=VALUE, not {wrong[0]!r}")
    if any(name == "spark.connect.authenticate.token" for name, _, _ in pairs):
        raise typer.BadParameter("the token is the setting spark_connect_token: everyone can read a command line")
    return {name: value for name, _, value in pairs}

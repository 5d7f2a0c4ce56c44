"""``pipestream plugins``: what is built in, and what other packages add."""

from __future__ import annotations

import typer

from pipestream.cli.options import JsonOption, examples
from pipestream.cli.output import emit_json, show_table


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("pipestream plugins", "pipestream plugins --json"))(plugins)


def plugins(json: JsonOption = False) -> None:
    """List connectors, lease stores, module kinds and transports: those of the product and those of installed packages.

    Each is imported. One that cannot be used is listed with the reason, and ends the command with 2.
    """
    from pipestream.plugins.registry import PluginGroup, check_plugin, list_plugins

    rows = [
        {
            "kind": group.noun,
            "name": plugin.name,
            "package": plugin.package,
            "version": plugin.version,
            "factory": plugin.target,
            "error": check_plugin(plugin),
        }
        for group in PluginGroup
        for plugin in list_plugins(group)
    ]
    if json:
        emit_json(rows)
    else:
        columns = ["kind", "name", "package", "version", "factory", "error"]
        show_table(columns, [[row[name] for name in columns] for row in rows], fold=["factory", "error"])
    if any(row["error"] for row in rows):
        raise typer.Exit(2)

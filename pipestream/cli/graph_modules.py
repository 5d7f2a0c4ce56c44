"""``pipestream graph modules``: what the modules of a graph say about themselves, and how they are."""

from __future__ import annotations

import typer

from pipestream.cli.options import GraphArgument, JsonOption, examples, read_settings
from pipestream.cli.output import emit_json, note, show_table


def add_to(group: typer.Typer) -> None:
    group.command(
        epilog=examples(
            "pipestream graph modules dags/graphs/sample.yaml",
            "pipestream graph modules dags/graphs/sample.yaml --json",
        )
    )(modules)


def modules(file: GraphArgument, json: JsonOption = False) -> None:
    """Show the modules of a graph: name, version, whether they read blobs, and their health.

    Asks each of them: a gRPC module for its registration and, if it has it, by gRPC's health protocol. Ends with 1 if
    one cannot be used.
    """
    from pipestream.graph.load import load_graph
    from pipestream.views.modules import module_states

    states = module_states(load_graph(file), read_settings())
    if json:
        emit_json(states)
    else:
        show_table(
            ["module", "nodes", "name", "version", "parser", "schema", "health"],
            [
                [
                    state.module,
                    ", ".join(state.nodes),
                    state.profile.name,
                    state.profile.version,
                    state.profile.is_parser,
                    state.profile.config_schema is not None,
                    state.health.value,
                ]
                for state in states
            ],
            fold=["module", "nodes"],
        )
        for state in states:
            if state.problem:
                note(f"{state.module}: {state.problem}", style="red")
    if not all(state.is_usable for state in states):
        raise typer.Exit(1)

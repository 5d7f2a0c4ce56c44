"""``pipestream topics``: what the broker holds, and how much of it is drained."""

from __future__ import annotations

from typing import Any

import typer

from pipestream.cli.options import GraphsOption, JsonOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, note, show_table


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("pipestream topics", "pipestream topics --graph dags/graphs/sample.yaml --json"))(
        topics
    )


def topics(graph: GraphsOption = None, json: JsonOption = False) -> None:
    """Show the topics of graphs: partitions, offsets, heads, lag and dead letters.

    Offsets include Kafka's transaction markers, so there are more offsets than records. Dead letters are those
    written while the topic was drained, from the ledger. Ends with 1 if a topic is missing.
    """
    from pipestream.views.topics import topic_rows

    settings = read_settings()
    rows = topic_rows(read_graphs(settings, graph), settings)
    missing = [row["topic"] for row in rows if row["partitions"] is None]
    if json:
        emit_json(rows)
    else:
        show_table(
            ["graph", "topic", "for", "partition", "low", "high", "head", "lag", "dead letters"],
            [line for row in rows for line in _lines(row)],
            numbers=["low", "high", "head", "lag", "dead letters"],
            fold=["topic"],
        )
    if missing:
        note(f"missing: {', '.join(missing)}; `pipestream graph apply FILE` creates them", style="red")
        raise typer.Exit(1)


def _lines(row: dict[str, Any]) -> list[list[Any]]:
    """One line per partition, with what belongs to the topic as a whole on the first."""
    first = [row["graph_id"], row["topic"], row["purpose"]]
    if row["partitions"] is None:
        return [[*first, "missing", None, None, None, None, None]]
    lines: list[list[Any]] = []
    for part in row["partitions"]:
        whole = [row["lag"], row["dead_letters"]] if not lines else ["", ""]
        offsets = [part["partition"], part["low"], part["high"], part["head"]]
        lines.append([*(first if not lines else ["", "", ""]), *offsets, *whole])
    return lines

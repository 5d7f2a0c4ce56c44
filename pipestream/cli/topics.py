"""``pipestream topics``: what the broker holds, and how much of it is drained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from pipestream.cli.options import GraphsOption, JsonOption, examples, read_graphs, read_settings
from pipestream.cli.output import emit_json, note, show_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipestream.graph.model import Graph
    from pipestream.kafka.ranges import Watermarks
    from pipestream.settings import Settings


def add_to(app: typer.Typer) -> None:
    app.command(epilog=examples("pipestream topics", "pipestream topics --graph dags/graphs/sample.yaml --json"))(
        topics
    )


def topics(graph: GraphsOption = None, json: JsonOption = False) -> None:
    """Show the topics of graphs: partitions, offsets, heads, lag and dead letters.

    Offsets count Kafka's transaction markers as well, so they are more than records. Dead letters are those
    written while the topic was drained, from the ledger. Ends with 1 if a topic is missing.
    """
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


def topic_rows(graphs: list[Graph], settings: Settings) -> list[dict[str, Any]]:
    """Return the topics of graphs with the keys of ``--json``; ``partitions`` is None for one that is not there."""
    from pipestream.drain.audit import audit_topic
    from pipestream.kafka.broker import Broker
    from pipestream.ledger import Ledger
    from pipestream.topics.required import leased_topics, required_topics

    broker, ledger = Broker(settings), Ledger(settings)
    existing = broker.existing()
    rows = []
    for graph in graphs:
        drained = set(leased_topics(graph))
        for spec in required_topics(graph, settings):
            row: dict[str, Any] = {"graph_id": graph.graph_id, "topic": spec.name, "purpose": spec.purpose.value}
            row |= {"drained": spec.name in drained, "partitions": None, "lag": None, "dead_letters": None}
            rows.append(row)
            if spec.name not in existing:
                continue
            if row["drained"]:
                audit = audit_topic(broker, ledger, graph, spec.name)
                row["partitions"] = _partitions(audit.watermarks, audit.heads)
                row |= {"lag": audit.lag, "dead_letters": audit.dead_letters}
            else:
                row["partitions"] = _partitions(broker.watermarks(spec.name, range(existing[spec.name])), {})
    return rows


def _partitions(watermarks: Mapping[int, Watermarks], heads: Mapping[int, int]) -> list[dict[str, Any]]:
    return [
        {"partition": number, "low": marks.low, "high": marks.high, "head": heads.get(number)}
        for number, marks in sorted(watermarks.items())
    ]


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

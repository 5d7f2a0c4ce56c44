"""Topics of graphs: what the broker holds, and how much of it is drained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipestream.kafka.broker import Broker
from pipestream.ledger import Ledger
from pipestream.topics.required import leased_topics, required_topics
from pipestream.views.audit import audit_topic

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.kafka.records import Watermarks
    from pipestream.settings import Settings


def topic_rows(graphs: list[Graph], settings: Settings) -> list[dict[str, Any]]:
    """Return the topics of graphs with the keys of ``--json``; ``partitions`` is None for one that is not there."""
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

"""The live numbers of a graph, for its picture: what waits, how fast it is drained, by whom, and what has failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipestream.arrow import to_rows
from pipestream.engine.decisions import count_conditions
from pipestream.graph.flow import destination_of, drained_topics
from pipestream.ledger.tables import is_decision
from pipestream.views.leases import SlotHolder

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.ledger import Ledger
    from pipestream.views.standing import Standing
    from pipestream.views.timeline import Window


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """A node now, and over a time window. What a server did not say is None."""

    id: str
    waiting: int | None
    """Offsets that wait in its topics."""
    oldest_age_s: float | None
    dead_letters: int | None
    """Letters of it that wait for somebody."""
    holders: tuple[SlotHolder, ...]
    """Slots of its topics that are held."""
    ranges: int
    records: int
    """Records that were drained at it in the window."""
    failed: int
    """Dead letters that were written in the window while its topics were drained."""
    seconds: float
    """Time that its drains took in the window."""
    records_per_s: float | None
    """Over the time that its drains took; None where they took none."""
    last_entry_at: datetime | None


@dataclass(frozen=True, slots=True)
class EdgeNumbers:
    """An edge over a time window. What nobody counts is None."""

    id: str
    taken: int | None
    """Documents that went over it. None for an edge inside a task that has no condition: nobody counts them."""
    not_taken: int | None
    """Documents for which its condition was false; None where none was evaluated."""
    failed: int | None
    """Documents on which its condition failed."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What the ledger says of a graph's topics in a time window."""

    topics: Mapping[str, Mapping[str, Any]]
    edges: Counter[str]
    decisions: Counter[str]
    """What conditions decided, as ``pipestream.engine.decisions`` names it."""


def read_drained(ledger: Ledger, window: Window) -> Drained:
    """Return what was drained of each topic, and what went over each edge, in a time window."""
    found = window.read(ledger, ["topic", "records", "documents_out", "dead_letters", "seconds", "entered_at"])
    sums = found.group_by("topic").aggregate(
        [("records", "sum"), ("records", "count"), ("dead_letters", "sum"), ("seconds", "sum"), ("entered_at", "max")]
    )
    counted = named_counts(found)
    edges = Counter({name: count for name, count in counted.items() if not is_decision(name)})
    return Drained({str(row["topic"]): row for row in to_rows(sums)}, edges, counted - edges)


def named_counts(entries: pa.Table) -> Counter[str]:
    """Add up what all entries count by name. A column of maps is flattened, not read row by row."""
    counted: Counter[str] = Counter()
    for chunk in entries["documents_out"].chunks:
        if len(chunk) == 0:
            continue
        # Chunks may share their buffers, and keys and items are those of all that share them.
        first, last = chunk.offsets[0].as_py(), chunk.offsets[len(chunk)].as_py()
        pairs = pa.table(
            {"edge": chunk.keys.slice(first, last - first), "count": chunk.items.slice(first, last - first)}
        )
        for row in pairs.group_by("edge").aggregate([("count", "sum")]).to_pylist():
            counted[row["edge"]] += row["count_sum"] or 0
    return counted


def node_numbers(
    graph: Graph,
    standing: Standing | None,
    letters: Counter[tuple[str, str]] | None,
    slots: Iterable[SlotHolder] | None,
    drained: Drained | None,
) -> list[NodeNumbers]:
    """Return the numbers of every node, in the order of the graph. A part that is None did not answer."""
    topics: dict[str, list[str]] = {node.node_id: [] for node in graph.nodes}
    for each in drained_topics(graph):
        topics[each.node_id].append(each.topic)
    stands = {each.topic: each for each in standing.topics if each.graph_id == graph.graph_id} if standing else {}
    held = [each for each in slots or () if each.holder]
    found = []
    for node_id, own in topics.items():
        here = [stands[topic] for topic in own if topic in stands]
        rows = [drained.topics[topic] for topic in own if drained and topic in drained.topics]
        records, seconds = int(_sum(rows, "records_sum")), _sum(rows, "seconds_sum")
        found.append(
            NodeNumbers(
                id=node_id,
                waiting=sum(each.lag for each in here) if standing else None,
                oldest_age_s=max((each.oldest_age_s for each in here), default=0.0) if standing else None,
                dead_letters=letters[graph.graph_id, node_id] if letters is not None else None,
                holders=tuple(each for each in held if each.topic in own),
                ranges=int(_sum(rows, "records_count")),
                records=records,
                failed=int(_sum(rows, "dead_letters_sum")),
                seconds=round(seconds, 3),
                records_per_s=round(records / seconds, 1) if seconds else None,
                last_entry_at=max((row["entered_at_max"] for row in rows), default=None),
            )
        )
    return found


def edge_numbers(graph: Graph, drained: Drained | None) -> list[EdgeNumbers]:
    """Return the numbers of every edge, in the order of the graph."""
    found = []
    for edge in graph.edges:
        counts = count_conditions(edge, drained.decisions) if drained else None
        taken = drained.edges[edge.edge_id] if drained and destination_of(edge, graph).topic else None
        if taken is None and counts is not None:
            taken = counts.true
        found.append(
            EdgeNumbers(edge.edge_id, taken, counts.false if counts else None, counts.failed if counts else None)
        )
    return found


def _sum(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    return sum(row[name] or 0 for row in rows)

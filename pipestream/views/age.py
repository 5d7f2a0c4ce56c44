"""Whether the documents of a graph will be too old when they reach their end, as things stand now. Pure.

The answer is about data, not about runs: documents get old also while no run is there to be late. What somebody has
stopped is left out, as in the alert on old records: a run that starts now does not drain it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.graph.flow import fed_topics, why_not_drained
from pipestream.graph.order import drain_order

if TYPE_CHECKING:
    import pyarrow as pa

    from pipestream.graph.model import Graph
    from pipestream.views.standing import TopicStanding


@dataclass(frozen=True, slots=True)
class AgeForecast:
    """How old the documents of a graph will get if a run starts now."""

    graph_id: str
    target_s: float
    topic: str
    """The topic whose oldest record will get oldest; empty if nothing waits."""
    age_s: float
    """How old that record is now."""
    drain_s: float
    """How long it takes from now to its end, at the pace of the ledger's last ranges."""

    @property
    def expected_s(self) -> float:
        """Return how old it will be at its end."""
        return self.age_s + self.drain_s

    @property
    def is_at_risk(self) -> bool:
        return self.expected_s > self.target_s

    def describe(self) -> str:
        if not self.topic:
            return f"nothing waits; documents of {self.graph_id} may get {self.target_s:g} s old"
        return (
            f"the oldest record in {self.topic} is {self.age_s:.0f} s old and needs about {self.drain_s:.0f} s to its "
            f"end; documents of {self.graph_id} may get {self.target_s:g} s old"
        )


def forecast_age(graph: Graph, standings: Iterable[TopicStanding], paces: Mapping[str, float]) -> AgeForecast:
    """Return how old documents of a graph with ``age_target_seconds`` will get.

    What waits in a topic has to be drained from it, then from the topics behind it, together with what waits there. The
    longest way counts. Each record is taken to become one record in each topic that it can reach, so the answer
    is rather too long than too short where documents branch. A way ends at a topic that is stopped.

    :param standings: those of the graph's topics, also of those in which nothing waits.
    :param paces: seconds per offset of each topic; a topic that was never drained takes no time.
    """
    known = list(standings)
    stopped = {each.topic for each in known if not each.is_started or why_not_drained(graph, each.topic)}
    waiting = {each.topic: each for each in known if each.lag and each.topic not in stopped}
    order = [topic for topic in dict.fromkeys(step.topic for step in drain_order(graph, 1)) if topic not in stopped]
    feeds = fed_topics(graph)
    worst = AgeForecast(graph.graph_id, float(graph.age_target_seconds or 0), "", 0.0, 0.0)
    for start in order:
        if start in waiting:
            drain_s = _seconds_to_end(start, order, feeds, waiting, paces)
            found = AgeForecast(worst.graph_id, worst.target_s, start, waiting[start].oldest_age_s, drain_s)
            worst = max(worst, found, key=lambda each: each.expected_s)
    return worst


def _seconds_to_end(
    start: str,
    order: Sequence[str],
    feeds: Mapping[str, Sequence[str]],
    waiting: Mapping[str, TopicStanding],
    paces: Mapping[str, float],
) -> float:
    """Return how long it takes until all that waits in a topic has left the graph. Ways back in a cycle do not add."""
    brought = {start: 0}
    ready_s = {start: 0.0}
    for topic in order[order.index(start) :]:
        if topic not in brought:
            continue
        records = brought[topic] + (waiting[topic].lag if topic in waiting else 0)
        done_s = ready_s[topic] + records * paces.get(topic, 0.0)
        ready_s[topic] = done_s
        for target in feeds[topic]:
            if target in order and order.index(target) > order.index(topic):
                brought[target] = max(brought.get(target, 0), records)
                ready_s[target] = max(ready_s.get(target, 0.0), done_s)
    return max(ready_s.values())


PACE_COLUMNS = ["lane", "topic", "start", "end", "seconds"]
"""What :func:`find_paces` reads of the ledger's entries."""


def find_paces(entries: pa.Table, lane: str) -> dict[str, float]:
    """Return the seconds per offset of each topic in a lane.

    :param entries: the ledger's, with these columns alone. A day of topics that stream has many thousand, and pages ask
        every few seconds. (To group them in Arrow would import pandas, which takes longer than this in a task.)
    """
    seconds: dict[str, float] = {}
    offsets: dict[str, int] = {}
    columns = (entries[name].to_pylist() for name in PACE_COLUMNS)
    for of_lane, topic, start, end, took_s in zip(*columns, strict=True):
        if of_lane == lane and took_s > 0:  # recovered ranges and moved heads took no time
            seconds[topic] = seconds.get(topic, 0.0) + took_s
            offsets[topic] = offsets.get(topic, 0) + end - start
    return {topic: seconds[topic] / count for topic, count in offsets.items() if count}

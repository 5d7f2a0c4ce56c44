"""The metrics that no single process can count, computed when Prometheus asks.

That is what waits (lag, age, leases, dead letters) and what was drained, also by runs that have ended since.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pipestream.engine.process import ERROR, HAPPY
from pipestream.errors import PipestreamError
from pipestream.graph.flow import destination_of
from pipestream.graph.model import Graph
from pipestream.ledger import EntryKind
from pipestream.topics.required import leased_topics
from pipestream.views.standing import Standing, StandingView, TopicStanding
from pipestream.views.totals import LABELS, LANES, DrainTotals, Totals

log = logging.getLogger(__name__)


class StandingCollector(Collector):
    """Asks the servers at every scrape. If one does not answer, only ``pipestream_standing_up`` is there, as 0."""

    def __init__(self, view: StandingView, find_graphs: Callable[[], Iterable[Graph]]) -> None:
        """Ask for ``find_graphs`` at every scrape too: an applied graph shows at once."""
        self._view = view
        self._find_graphs = find_graphs
        self._one_at_a_time = threading.Lock()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name no metric: registering a collector must not ask the servers."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._one_at_a_time:
            try:
                standing = self._view.find(self._find_graphs())
            except PipestreamError as error:
                log.warning("no lag can be reported: %s", error)
                standing = None
        yield _gauge("standing_up", "Whether Kafka, the ledger and the lease store answered.", float(bool(standing)))
        if standing is not None:
            yield from _families(standing)


class DrainedCollector(Collector):
    """Counts what the ledger says was drained. If the ledger does not answer, nothing is there."""

    def __init__(self, totals: DrainTotals, find_graphs: Callable[[], Iterable[Graph]]) -> None:
        """Ask for ``find_graphs`` at every scrape too: an applied graph shows at once."""
        self._totals = totals
        self._find_graphs = find_graphs

    def describe(self) -> Iterator[CounterMetricFamily]:
        """Name no metric: registering a collector must not ask the ledger."""
        return iter(())

    def collect(self) -> Iterator[CounterMetricFamily]:
        try:
            graphs, totals = list(self._find_graphs()), self._totals.find()
        except PipestreamError as error:
            log.warning("what was drained cannot be reported: %s", error)
            return
        yield from _counters(totals, graphs)


def _counters(totals: Totals, graphs: list[Graph]) -> Iterator[CounterMetricFamily]:
    helps = {
        "drained_ranges": "Ranges that drains entered into the ledger, by why.",
        "drained_records": "Records that drains processed.",
        "drained_dead_letters": "Dead letters that drains wrote.",
        "drained_seconds": "Time that drains took, added up over the ranges.",
        "drained_documents_out": "Documents that left drains, by edge or end.",
    }
    known = {graph.graph_id for graph in graphs}
    none_yet = _zeros(graphs)
    for name, help_ in helps.items():
        family = CounterMetricFamily(f"pipestream_{name}", help_, labels=LABELS[name])
        for labels, value in {**none_yet[name], **totals[name]}.items():
            if labels[0] in known:
                family.add_metric(labels, value)
        yield family


def _zeros(graphs: list[Graph]) -> Totals:
    """Return a zero for what can happen to graphs: Prometheus sees no increase in a counter that begins at 1.

    Any topic can have a backfill, whose lane is not known before. All backfills share one label.
    """
    topics = [(graph.graph_id, topic, lane) for graph in graphs for topic in leased_topics(graph) for lane in LANES]
    zeros: dict[str, dict[tuple[str, ...], float]] = {name: dict.fromkeys(topics, 0.0) for name in LABELS}
    zeros["drained_ranges"] = {(*labels, EntryKind.DRAINED.value): 0.0 for labels in topics}
    zeros["drained_documents_out"] = {
        (graph.graph_id, lane, way): 0.0
        for graph in graphs
        for lane in LANES
        for way in (*(each.edge_id for each in graph.edges if destination_of(each, graph).topic), HAPPY, ERROR)
    }
    return zeros


def _families(standing: Standing) -> Iterator[GaugeMetricFamily]:
    values: dict[str, tuple[str, Callable[[TopicStanding], float]]] = {
        "topic_lag_records": ("Offsets that wait in a topic.", lambda each: each.lag),
        "topic_oldest_record_age_seconds": ("Age of the oldest record that waits.", lambda each: each.oldest_age_s),
        "topic_started": ("Whether the operator wants the topic drained.", lambda each: each.is_started),
        "topic_replicas": ("How many slots the operator wants.", lambda each: each.replicas),
        "topic_held_slots": ("How many slots of a topic are leased.", lambda each: each.held_slots),
    }
    for name, (help_, value_of) in values.items():
        family = GaugeMetricFamily(f"pipestream_{name}", help_, labels=["graph", "topic"])
        for each in standing.topics:
            family.add_metric([each.graph_id, each.topic], float(value_of(each)))
        yield family
    targets = GaugeMetricFamily("pipestream_graph_age_target_seconds", "How old documents may get.", labels=["graph"])
    expected = GaugeMetricFamily(
        "pipestream_graph_expected_age_seconds",
        "How old the oldest waiting document will be at its end, if a run starts now.",
        labels=["graph"],
    )
    for age in standing.ages:
        targets.add_metric([age.graph_id], age.target_s)
        expected.add_metric([age.graph_id], age.expected_s)
    yield from (targets, expected)
    letters = GaugeMetricFamily("pipestream_dead_letters_held", "Offsets in a topic of dead letters.", labels=["topic"])
    for topic, count in standing.dead_letters.items():
        letters.add_metric([topic], count)
    yield letters


def _gauge(name: str, help_: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"pipestream_{name}", help_, value=value)

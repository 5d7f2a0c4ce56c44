"""The metrics that no single process can count: lag, age, leases and dead letters, computed when Prometheus asks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipestream.errors import PipestreamError
from pipestream.graph.model import Graph
from pipestream.views.standing import Standing, StandingView, TopicStanding

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

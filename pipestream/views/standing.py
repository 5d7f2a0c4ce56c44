"""How far behind the topics of graphs are: what waits, since when, who works on it, and what has failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.kafka.records import OffsetRange
from pipestream.kafka.scan import find_held, scan
from pipestream.leases.names import is_backfill_lease
from pipestream.ledger import Ledger
from pipestream.topics.required import Purpose, leased_topics, required_topics

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.leases.store import LeaseStore
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicStanding:
    """One drained topic of a graph."""

    graph_id: str
    topic: str
    lag: int
    """Offsets that wait, or are drained and not yet recorded."""
    oldest_age_s: float
    """Age of the oldest record that waits; 0 where none does."""
    is_started: bool
    held_slots: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Standing:
    """All topics of some graphs at one moment."""

    topics: tuple[TopicStanding, ...]
    dead_letters: dict[str, int]
    """Offsets in each topic of dead letters."""


class StandingView:
    """Asks Kafka, the ledger and the lease store, a few questions for all topics together.

    Keeps the times of records that it has looked up: the record at an offset never changes.
    """

    def __init__(self, settings: Settings, leases: LeaseStore, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._leases = leases
        self._ledger = Ledger(settings)
        self._now = now
        self._written_at: dict[tuple[str, int, int], float] = {}

    def find(self, graphs: Iterable[Graph]) -> Standing:
        """Return where the topics of graphs stand now.

        :raises TransientError: a server did not answer.
        """
        graphs = list(graphs)
        drained = [(graph.graph_id, topic) for graph in graphs for topic in leased_topics(graph)]
        letters = {
            spec.name
            for graph in graphs
            for spec in required_topics(graph, self._settings)
            if spec.purpose is Purpose.DEAD_LETTERS
        }
        held: dict[str, list[OffsetRange]] = {}
        for each in find_held(self._settings, {topic for _, topic in drained} | letters):
            held.setdefault(each.topic, []).append(each)
        waiting = self._find_waiting(drained, held)
        self._look_up_times([each for ranges in waiting.values() for each in ranges])
        return Standing(
            tuple(self._stand(graph_id, topic, waiting[graph_id, topic]) for graph_id, topic in drained),
            {topic: sum(map(_length, held.get(topic, ()))) for topic in sorted(letters)},
        )

    def _find_waiting(
        self, drained: list[tuple[str, str]], held: dict[str, list[OffsetRange]]
    ) -> dict[tuple[str, str], list[OffsetRange]]:
        places = [(lane, topic, each.partition) for lane, topic in drained for each in held.get(topic, ())]
        heads = self._ledger.heads_of(places)
        waiting: dict[tuple[str, str], list[OffsetRange]] = {place: [] for place in drained}
        for lane, topic in drained:
            for each in held.get(topic, ()):
                start = max(heads.get((lane, topic, each.partition), each.start), each.start)
                if start < each.end:
                    waiting[lane, topic].append(OffsetRange(topic, each.partition, start, each.end))
        return waiting

    def _look_up_times(self, ranges: list[OffsetRange]) -> None:
        wanted = {(each.topic, each.partition, each.start): each for each in ranges}
        self._written_at = {place: at for place, at in self._written_at.items() if place in wanted}
        for place, each in wanted.items():
            if place not in self._written_at:
                # The offset may hold Kafka's own marker of a transaction: the first record behind it is the oldest.
                with closing(scan(self._settings, [each])) as records:  # type: ignore[type-var]
                    first = next(iter(records), None)
                self._written_at[place] = first.timestamp_ms / 1000 if first is not None else self._now()

    def _stand(self, graph_id: str, topic: str, waiting: list[OffsetRange]) -> TopicStanding:
        times = [self._written_at[each.topic, each.partition, each.start] for each in waiting]
        state = self._leases.desired(topic)
        slots = [each for each in self._leases.assignments(topic) if each.lane == graph_id]
        return TopicStanding(
            graph_id,
            topic,
            lag=sum(map(_length, waiting)),
            oldest_age_s=max(0.0, self._now() - min(times)) if times else 0.0,
            is_started=state.started,
            held_slots=sum(bool(each.holder) and not is_backfill_lease(each.name) for each in slots),
            replicas=state.replicas,
        )


def _length(each: OffsetRange) -> int:
    return each.end - each.start

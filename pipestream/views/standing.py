"""How far behind the topics of graphs are: what waits, since when, who works on it, and what has failed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipestream.kafka.records import OffsetRange
from pipestream.kafka.scan import find_first, find_held
from pipestream.leases.names import is_backfill_lease
from pipestream.leases.store import TopicMode
from pipestream.ledger import Ledger
from pipestream.topics.required import Purpose, leased_topics, required_topics
from pipestream.views.age import PACE_COLUMNS, AgeForecast, find_paces, forecast_age
from pipestream.views.leases import desired_states

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.leases.store import DesiredState, LeaseStore
    from pipestream.settings import Settings


PACE_S = 86_400
"""The pace of a topic is that of its ranges of the last day. Older ones say little, and take time to read."""


@dataclass(frozen=True, slots=True)
class TopicStanding:
    """One drained topic of a graph."""

    graph_id: str
    topic: str
    lag: int
    """Offsets that wait, or are drained and not yet recorded."""
    drained_to: int
    """The offsets where its partitions continue, added up. It grows with every range that is recorded."""
    oldest_age_s: float
    """Age of the oldest record that waits; 0 where none does."""
    is_started: bool
    is_streaming: bool
    """Whether a streaming drain or a sidecar drains it, not batch runs."""
    held_slots: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Standing:
    """All topics of some graphs at one moment."""

    topics: tuple[TopicStanding, ...]
    dead_letters: dict[str, int]
    """Offsets in each topic of dead letters."""
    ages: tuple[AgeForecast, ...] = ()
    """How old documents will get, of each graph that has a target for it."""


class StandingView:
    """Asks Kafka, the ledger and the lease store, a few questions for all topics together.

    Keeps the times of records that it has looked up: the record at an offset never changes. Safe to share between
    threads, which then take turns.
    """

    def __init__(self, settings: Settings, leases: LeaseStore, now: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._leases = leases
        self._ledger = Ledger(settings)
        self._now = now
        self._written_at: dict[tuple[str, int, int], float] = {}
        self._one_at_a_time = threading.Lock()

    def find(self, graphs: Iterable[Graph]) -> Standing:
        """Return where the topics of graphs stand now.

        :raises TransientError: a server did not answer.
        """
        with self._one_at_a_time:
            return self._find(list(graphs))

    def _find(self, graphs: list[Graph]) -> Standing:
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
        topics = self._stand_all(drained, held)
        return Standing(
            topics,
            {topic: sum(map(_length, held.get(topic, ()))) for topic in sorted(letters)},
            self._forecast(graphs, topics),
        )

    def _forecast(self, graphs: list[Graph], topics: Iterable[TopicStanding]) -> tuple[AgeForecast, ...]:
        since = datetime.fromtimestamp(self._now() - PACE_S, UTC)
        return tuple(
            forecast_age(
                graph,
                [each for each in topics if each.graph_id == graph.graph_id],
                find_paces(
                    self._ledger.entries_table(PACE_COLUMNS, graph_id=graph.graph_id, since=since), graph.graph_id
                ),
            )
            for graph in graphs
            if graph.age_target_seconds
        )

    def find_topics(self, drained: Sequence[tuple[str, str]]) -> tuple[TopicStanding, ...]:
        """Return where some topics stand now, in their order; a topic that is not there holds nothing.

        :param drained: each topic with the graph that drains it.
        :raises TransientError: a server did not answer.
        """
        held: dict[str, list[OffsetRange]] = {}
        for each in find_held(self._settings, {topic for _, topic in drained}):
            held.setdefault(each.topic, []).append(each)
        return self._stand_all(drained, held)

    def _stand_all(
        self, drained: Sequence[tuple[str, str]], held: dict[str, list[OffsetRange]]
    ) -> tuple[TopicStanding, ...]:
        waiting = self._find_waiting(drained, held)
        self._look_up_times([each for ranges in waiting.values() for each in ranges])
        topics = list(dict.fromkeys(topic for _, topic in drained))
        ends = {topic: sum(each.end for each in held.get(topic, ())) for topic in topics}
        desired = desired_states(self._leases, topics)
        held_slots = Counter(
            (each.lane, each.topic)
            for each in (self._leases.assignments() if topics else ())
            if each.holder and not is_backfill_lease(each.name)
        )
        return tuple(
            self._stand(place, waiting[place], ends[place[1]], desired[place[1]], held_slots[place])
            for place in drained
        )

    def _find_waiting(
        self, drained: Sequence[tuple[str, str]], held: dict[str, list[OffsetRange]]
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
        new = [each for place, each in wanted.items() if place not in self._written_at]
        while new:
            # Two graphs may stand at different places of one partition, so one place of each is looked up at a time.
            looked_up = list({(each.topic, each.partition): each for each in new}.values())
            # The offset may hold Kafka's own marker of a transaction: the first record behind it is the oldest.
            found = find_first(self._settings, looked_up)
            for each in looked_up:
                first = found.get((each.topic, each.partition))
                written_at = first.timestamp_ms / 1000 if first is not None else self._now()
                self._written_at[each.topic, each.partition, each.start] = written_at
            new = [each for each in new if each not in looked_up]

    def _stand(
        self, place: tuple[str, str], waiting: list[OffsetRange], end: int, state: DesiredState, held_slots: int
    ) -> TopicStanding:
        lag = sum(map(_length, waiting))
        times = [self._written_at[each.topic, each.partition, each.start] for each in waiting]
        return TopicStanding(
            *place,
            lag=lag,
            drained_to=end - lag,
            oldest_age_s=max(0.0, self._now() - min(times)) if times else 0.0,
            is_started=state.started,
            is_streaming=state.mode is TopicMode.STREAMING,
            held_slots=held_slots,
            replicas=state.replicas,
        )


def _length(each: OffsetRange) -> int:
    return each.end - each.start

"""Find the hours of a datasource that are drained to their end, from Kafka and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pipestream.graph.components import strong_components
from pipestream.graph.flow import fed_topics
from pipestream.graph.order import drain_order
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange
from pipestream.kafka.scan import find_first, find_held, scan
from pipestream.ledger import EntryKind, Ledger
from pipestream.topic_names import intake_topic
from pipestream.views.hour_proof import HOUR, Bounds, PartitionState, Stage, count_late, next_hours, prove_hour

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

MOST_HOURS = 24
"""Hours that are looked at in one go; each costs a question to Kafka per topic."""


@dataclass(frozen=True, slots=True)
class LastHour:
    """The last hour that was said to be complete."""

    until: datetime
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class CompleteHours:
    """The hours that are complete now and were not said to be."""

    ends: tuple[datetime, ...]
    """The end of each hour, oldest first."""
    bounds: Bounds
    """Where the last of them ends in the intake topic; empty if there is none."""
    late: Mapping[datetime, int]
    """Records that were found behind the end of their hour, by the begin of that hour."""
    missing: str
    """Why the next hour is not complete; empty if it is not over."""


def find_complete_hours(
    settings: Settings, graph: Graph, datasource_id: str, last: LastHour | None, now: datetime
) -> CompleteHours:
    """Return the hours after ``last`` whose documents have all reached their end.

    :param last: the last hour that somebody was told of; None: begin with the oldest record, at most a day ago.
    :raises TransientError: a server did not answer.
    """
    intake, grace = intake_topic(datasource_id), timedelta(seconds=settings.hour_grace_s)
    candidates = next_hours(last.until if last else None, _find_oldest(settings, intake), now, grace, MOST_HOURS)
    if not candidates:
        return CompleteHours((), {}, {}, "")
    stages = stages_behind(graph, intake)
    snapshot = _Snapshot(settings, graph.graph_id, stages, candidates[0] - HOUR)
    complete: list[tuple[datetime, Bounds]] = []
    missing = ""
    for until in candidates:
        proof = prove_hour(until, stages, snapshot.look, snapshot.recorded, grace)
        if proof.missing:
            missing = f"the hour until {until:%Y-%m-%d %H:%M} UTC is not complete: {proof.missing}"
            break
        complete.append((until, proof.bounds))
    late = _find_late(settings, intake, last, complete)
    bounds = complete[-1][1] if complete else {}
    return CompleteHours(tuple(until for until, _ in complete), bounds, late, missing)


def stages_behind(graph: Graph, intake: str) -> list[Stage]:
    """Return the topics that documents of an intake topic can reach, in the order of the graph."""
    feeds = fed_topics(graph)
    reached = [intake]
    for topic in reached:
        reached += [each for each in feeds[topic] if each not in reached]
    stages: list[Stage] = []
    order = {step.topic: number for number, step in enumerate(drain_order(graph, 1))}
    components = strong_components(sorted(reached, key=order.__getitem__), feeds.__getitem__)
    for members in sorted(components, key=lambda topics: min(order[topic] for topic in topics)):
        fed_by = [topic for topic in reached if topic not in members and not set(feeds[topic]).isdisjoint(members)]
        is_cycle = len(members) > 1 or members[0] in feeds[members[0]]
        stages.append(Stage(tuple(sorted(members)), tuple(fed_by), is_cycle))
    return stages


class _Snapshot:
    """The ledger at one moment; Kafka is asked after that. ``prove_hour`` says why in this order."""

    def __init__(self, settings: Settings, lane: str, stages: list[Stage], since: datetime) -> None:
        self._broker = Broker(settings)
        topics = [topic for stage in stages for topic in stage.topics]
        ledger = Ledger(settings)
        counts = self._broker.existing()
        ids = {topic: self._broker.identify(topic).topic_id for topic in topics if topic in counts}
        # Heads of a topic that was deleted and made again say nothing about the records of the new one.
        known = [topic for topic, topic_id in ids.items() if ledger.is_same_topic(lane, topic, topic_id)]
        self._heads = ledger.heads_of((lane, topic, each) for topic in known for each in range(counts[topic]))
        self._lane = lane
        self.recorded: dict[tuple[str, int], list[tuple[int, datetime]]] = {}
        for entry in ledger.entries(lane=lane, since=since):
            if entry.topic_id != ids.get(entry.range.topic):
                continue
            ends = self.recorded.setdefault((entry.range.topic, entry.range.partition), [])
            if entry.kind is EntryKind.REBASELINED:
                ends.clear()  # what was passed before may be drained again
            ends.append((entry.range.end, entry.entered_at))
        self._held: dict[str, list[OffsetRange]] = {}
        for each in find_held(settings, topics):
            self._held.setdefault(each.topic, []).append(each)
        self._empty = {topic: self._ends_of_empty(topic) for topic in known}

    def _ends_of_empty(self, topic: str) -> dict[int, int]:
        """Return where partitions end that hold nothing now: retention may have deleted what nobody drained."""
        held = {each.partition for each in self._held.get(topic, [])}
        empty = [partition for _, of, partition in self._heads if of == topic and partition not in held]
        return self._broker.written_ends(topic, empty) if empty else {}

    def look(self, topic: str, moment: datetime) -> dict[int, PartitionState]:
        held = self._held.get(topic, [])
        places = [(topic, each.partition) for each in held]
        (after,) = self._broker.offsets_over_time(places, [int(moment.timestamp() * 1000)])
        empty = {
            partition: PartitionState(self._heads[self._lane, topic, partition], end, None)
            for partition, end in self._empty.get(topic, {}).items()
        }
        return empty | {
            each.partition: PartitionState(
                # Not where the partition starts now, if that is later: retention has then deleted what nobody drained.
                head=self._heads.get((self._lane, topic, each.partition), each.start),
                end=each.end,
                first_after=after.get((topic, each.partition)),
            )
            for each in held
        }


def _find_oldest(settings: Settings, intake: str) -> datetime | None:
    found = find_first(settings, find_held(settings, [intake]))
    times = [_time_of(record.timestamp_ms) for record in found.values()]
    return min(times, default=None)


def _find_late(
    settings: Settings, intake: str, last: LastHour | None, complete: list[tuple[datetime, Bounds]]
) -> Mapping[datetime, int]:
    """Read what was written behind the last hour that was complete, once: up to the end of those that are now."""
    if last is None or not complete:
        return {}
    held = {each.partition: each for each in find_held(settings, [intake])}
    ranges = []
    for partition, bound in complete[-1][1].items():
        start = max(last.bounds.get(partition, 0), held[partition].start) if partition in held else bound
        if start < bound:
            ranges.append(OffsetRange(intake, partition, start, bound))
    read = scan(settings, ranges, committed=True)
    records = ((each.partition, each.offset, _time_of(each.timestamp_ms)) for each in read)
    return dict(count_late(records, complete))


def _time_of(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)

"""Drain a stretch of a topic's past again, next to the live runs.

A backfill has an id, and with it a lane of its own: its own consumer group, heads and stream ids. So it never moves
a live head, an interrupted one resumes where it stopped, and a finished one finds nothing left to do. Which offsets
it covers is fixed in its plan when it first runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pipestream.errors import OffsetsExpired, RequestInvalid
from pipestream.ids import check_graph_id
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange, Watermarks
from pipestream.ledger import EntryKind, Ledger, Plan
from pipestream.offsets.start import timestamp_ms_of
from pipestream.settings import Settings


class BackfillInvalid(RequestInvalid):
    """A backfill asks for something that cannot be."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """Which part of a topic's past to drain again, and under which name."""

    backfill_id: str
    since: datetime | None = None
    until: datetime | None = None
    offsets: Mapping[int, tuple[int, int]] | None = None
    """Start and end per partition; partitions left out are not touched."""
    doc_ids: tuple[str, ...] = ()
    """Only these documents; all, if empty."""

    def __post_init__(self) -> None:
        check_graph_id(self.backfill_id, "backfill id")
        if (self.since is None and self.until is None) == (self.offsets is None):
            raise BackfillInvalid("say what to cover: a time range (since, until or both), or a range of offsets")
        if self.since and self.until and self.since >= self.until:
            raise BackfillInvalid(f"since ({self.since}) must be before until ({self.until})")
        for partition, (start, end) in (self.offsets or {}).items():
            if not 0 <= start < end:
                raise BackfillInvalid(f"partition {partition}: {start}..{end} is not a range of offsets")

    def check_plan(self, plan: Plan) -> None:
        """Refuse to resume a plan that was made for something else.

        Times are not compared: what ``PT6H`` or an open end meant was fixed when the plan was made.

        :raises BackfillInvalid: its offsets or its documents are others.
        """
        planned = {each.partition: (each.start, each.end) for each in plan.ranges}
        if self.offsets not in (None, planned) or self.doc_ids != plan.doc_ids:
            documents = f"{len(plan.doc_ids)} documents" if plan.doc_ids else "all documents"
            raise BackfillInvalid(
                f"backfill {self.backfill_id} was planned at {plan.planned_at:%Y-%m-%d %H:%M:%S} for {documents} of "
                f"{', '.join(map(str, plan.ranges))}; take another id for another backfill"
            )

    def finished(self, plan: Plan) -> str:
        """Return that nothing is left of it, and what it was: the same name may be meant for something else now."""
        covered = ", ".join(map(str, plan.ranges))
        return (
            f"backfill {self.backfill_id} of {plan.topic} is finished: it covered {covered}, see lane {plan.lane} of "
            f"the ledger; another backfill needs another id"
        )

    def ranges(self, broker: Broker, topic: str, partitions: Iterable[int]) -> list[OffsetRange]:
        """Return the ranges it covers now; the plan then keeps them.

        :raises OffsetsExpired: it asks for offsets that Kafka no longer holds.
        """
        # Settled, because no later run would make up for a record that does not show yet.
        watermarks = broker.settled_watermarks(topic, partitions)
        if self.offsets is not None:
            return _given_ranges(topic, self.offsets, watermarks)
        starts = self._offsets_at(broker, topic, watermarks, self.since, {p: m.low for p, m in watermarks.items()})
        ends = self._offsets_at(broker, topic, watermarks, self.until, {p: m.high for p, m in watermarks.items()})
        return [OffsetRange(topic, p, starts[p], ends[p]) for p in sorted(starts) if starts[p] < ends[p]]

    @staticmethod
    def _offsets_at(
        broker: Broker,
        topic: str,
        watermarks: Mapping[int, Watermarks],
        moment: datetime | None,
        default: dict[int, int],
    ) -> dict[int, int]:
        if moment is None:
            return default
        found = broker.offsets_at(topic, watermarks, timestamp_ms_of(moment))
        # A time after the last record has no offset: the stretch then ends where the topic does.
        return {p: min(found.get(p, mark.high), mark.high) for p, mark in watermarks.items()}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a backfill would take."""

    ranges: tuple[OffsetRange, ...]
    offsets: int
    seconds: float | None
    """At the pace of this topic's runs so far; ``None`` where there were none."""


def estimate_backfill(backfill: Backfill, settings: Settings, lane: str, topic: str) -> Estimate:
    """Say what a backfill would cover and how long it may take, without doing anything."""
    ranges = _find_ranges(backfill, settings, topic)
    offsets = sum(map(len, ranges))
    pace = seconds_per_offset(settings, lane, topic)
    return Estimate(tuple(ranges), offsets, None if pace is None else offsets * pace)


def seconds_per_offset(settings: Settings, lane: str, topic: str) -> float | None:
    """Return the pace of a topic's runs so far, or None if there were none."""
    entries = [entry for entry in Ledger(settings).entries(lane=lane, topic=topic) if entry.seconds > 0]
    drained, seconds = sum(len(entry.range) for entry in entries), sum(entry.seconds for entry in entries)
    return seconds / drained if drained else None


def hash_of_then(backfill: Backfill, settings: Settings, lane: str, topic: str) -> str:
    """Return the hash of the graph that the live runs drained a backfill's ranges with.

    :raises BackfillInvalid: no run did, or several versions did; the message says which for which offsets.
    """
    ranges = _find_ranges(backfill, settings, topic)
    found: dict[str, list[str]] = {}
    for entry in Ledger(settings).entries(lane=lane, topic=topic):
        if entry.kind in (EntryKind.DRAINED, EntryKind.RECOVERED) and any(_overlap(entry.range, r) for r in ranges):
            found.setdefault(entry.graph_hash, []).append(str(entry.range))
    if not found:
        raise BackfillInvalid(f"no live run of {lane} drained these offsets of {topic}; use the graph of now")
    if len(found) > 1:
        places = "; ".join(f"{digest[:12]}: {', '.join(each)}" for digest, each in sorted(found.items()))
        raise BackfillInvalid(f"these offsets were drained with several versions, so backfill each apart: {places}")
    return next(iter(found))


def _find_ranges(backfill: Backfill, settings: Settings, topic: str) -> list[OffsetRange]:
    broker = Broker(settings)
    return backfill.ranges(broker, topic, broker.identify(topic).partitions)


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.partition == other.partition and one.start < other.end and other.start < one.end


def parse_offsets(texts: Iterable[str]) -> dict[int, tuple[int, int]]:
    """Read ``PARTITION:START-END`` (half-open), as given on a command line.

    :raises BackfillInvalid: a text is something else, or two are of one partition.
    """
    found: dict[int, tuple[int, int]] = {}
    for text in texts:
        try:
            partition, _, span = text.partition(":")
            start, _, end = span.partition("-")
            number, offsets = int(partition), (int(start), int(end))
        except ValueError:
            raise BackfillInvalid(f"{text!r} is not PARTITION:START-END, such as 0:100-200") from None
        if number in found:
            raise BackfillInvalid(f"{text!r} is a second range of partition {number}; a backfill covers one of each")
        found[number] = offsets
    return found


def _given_ranges(
    topic: str, offsets: Mapping[int, tuple[int, int]], watermarks: Mapping[int, Watermarks]
) -> list[OffsetRange]:
    ranges = []
    for partition, (start, end) in sorted(offsets.items()):
        marks = watermarks.get(partition)
        if marks is None:
            raise BackfillInvalid(f"{topic} has no partition {partition}; it has 0 to {len(watermarks) - 1}")
        if start < marks.low:
            raise OffsetsExpired(topic, partition, start, marks.low, f"a backfill can begin at {marks.low}")
        if end > marks.high:
            raise BackfillInvalid(f"{topic}[{partition}] ends at {marks.high}, before {end}")
        ranges.append(OffsetRange(topic, partition, start, end))
    return ranges

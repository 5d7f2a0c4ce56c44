"""The ledger over time: ranges, runs, and series for plots. Counted in Arrow: a ledger has many entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pipestream.arrow import to_rows
from pipestream.ledger.entries import EntryKind
from pipestream.ledger.tables import ENTRIES_SCHEMA, entry_from_row
from pipestream.views.ledger import entry_values

if TYPE_CHECKING:
    from pipestream.ledger import Ledger

_NEWEST_FIRST = [
    ("entered_at", "descending"),
    ("topic", "ascending"),
    ("partition", "ascending"),
    ("end", "descending"),
]


@dataclass(frozen=True, slots=True)
class Window:
    """A time window of a graph's entries."""

    graph_id: str
    since: datetime
    until: datetime
    topic: str | None = None
    partition: int | None = None

    def read(self, ledger: Ledger, columns: list[str]) -> pa.Table:
        """Return columns of the entries in it."""
        wanted = columns if "partition" in columns or self.partition is None else [*columns, "partition"]
        found = ledger.entries_table(
            wanted, graph_id=self.graph_id, topic=self.topic, since=self.since, until=self.until
        )
        if self.partition is not None:
            found = found.filter(pc.equal(found["partition"], self.partition))
        return found


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Some entries of a window, newest first, with the keys of ``pipestream ledger entries --json``."""

    entries: list[dict[str, Any]]
    total: int
    """How many entries the window has."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """What one run recorded in a window."""

    run_id: str
    lane: str
    topics: list[str]
    ranges: int
    recovered: int
    records: int
    dead_letters: int
    seconds: float
    first_entry_at: datetime
    last_entry_at: datetime


@dataclass(frozen=True, slots=True)
class TopicSeries:
    """A topic over time, a value per bin."""

    topic: str
    records: list[int]
    dead_letters: list[int]
    seconds: list[float]
    backlog: list[int] | None = None
    """Offsets that waited at the end of the bin; None where Kafka did not answer."""


@dataclass(frozen=True, slots=True)
class Series:
    """Topics over time, for plots. ``times`` are the ends of the bins, in seconds since 1970."""

    times: list[float]
    series: list[TopicSeries] = field(default_factory=list)


def entry_page(ledger: Ledger, window: Window, *, limit: int, offset: int) -> EntryPage:
    """Return a page of the entries in a window.

    The columns that they are ordered by are read first, and all columns only of the page: most of an entry is text.
    """
    keys = window.read(ledger, [name for name, _ in _NEWEST_FIRST])
    times = to_rows(keys.sort_by(_NEWEST_FIRST).slice(offset, limit).select(["entered_at"]))
    if not times:
        return EntryPage([], keys.num_rows)
    newest, oldest = times[0]["entered_at"], times[-1]["entered_at"]
    found = replace(window, since=oldest, until=newest + timedelta(microseconds=1)).read(ledger, ENTRIES_SCHEMA.names)
    # Entries of one commit may have the same time, and only some of them may be on the page.
    before = keys.filter(pc.greater(keys["entered_at"], pa.scalar(newest, keys["entered_at"].type))).num_rows
    page = found.sort_by(_NEWEST_FIRST).slice(offset - before, limit)
    return EntryPage([entry_values(entry_from_row(row)) for row in to_rows(page)], keys.num_rows)


def run_rows(ledger: Ledger, window: Window, limit: int) -> list[RunRow]:
    """Return the runs that recorded something in a window, newest first."""
    columns = ["run_id", "lane", "topic", "kind", "records", "dead_letters", "seconds", "entered_at"]
    found = window.read(ledger, columns)
    found = found.append_column("is_recovered", pc.cast(pc.equal(found["kind"], EntryKind.RECOVERED.value), pa.int64()))
    grouped = found.group_by(["run_id", "lane"]).aggregate(
        [
            ("topic", "distinct"),
            ("topic", "count"),
            ("is_recovered", "sum"),
            ("records", "sum"),
            ("dead_letters", "sum"),
            ("seconds", "sum"),
            ("entered_at", "min"),
            ("entered_at", "max"),
        ]
    )
    newest = grouped.sort_by([("entered_at_max", "descending")]).slice(0, limit)
    return [
        RunRow(
            run_id=row["run_id"],
            lane=row["lane"],
            topics=sorted(row["topic_distinct"]),
            ranges=row["topic_count"],
            recovered=row["is_recovered_sum"],
            records=row["records_sum"] or 0,
            dead_letters=row["dead_letters_sum"] or 0,
            seconds=row["seconds_sum"] or 0.0,
            first_entry_at=row["entered_at_min"],
            last_entry_at=row["entered_at_max"],
        )
        for row in to_rows(newest)
    ]


def topic_series(ledger: Ledger, window: Window, points: int) -> Series:
    """Return what was drained of each topic, in equal bins of a window, without the backlog."""
    found = _binned(window.read(ledger, ["topic", "entered_at", "records", "dead_letters", "seconds"]), window, points)
    sums = found.group_by(["topic", "bin"]).aggregate([("records", "sum"), ("dead_letters", "sum"), ("seconds", "sum")])
    series: dict[str, TopicSeries] = {}
    for row in to_rows(sums):
        topic, number = row["topic"], row["bin"]
        if topic not in series:
            series[topic] = TopicSeries(topic, [0] * points, [0] * points, [0.0] * points)
        series[topic].records[number] += row["records_sum"] or 0
        series[topic].dead_letters[number] += row["dead_letters_sum"] or 0
        series[topic].seconds[number] += round(row["seconds_sum"] or 0.0, 3)
    return Series(bin_ends(window, points), [series[topic] for topic in sorted(series)])


def heads_over_time(
    ledger: Ledger, window: Window, heads: Mapping[tuple[str, int], int], points: int
) -> dict[tuple[str, int], list[int]]:
    """Return how far each partition was drained at the end of each bin, from the entries and the heads now.

    :param heads: of the live lane now, by topic and partition.
    """
    found = window.read(ledger, ["lane", "topic", "partition", "start", "end", "entered_at"])
    found = _binned(found.filter(pc.equal(found["lane"], window.graph_id)), window, points)
    steps = found.group_by(["topic", "partition", "bin"]).aggregate([("start", "min"), ("end", "max")])
    walked: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    for row in to_rows(steps):
        walked.setdefault((row["topic"], row["partition"]), {})[row["bin"]] = (row["start_min"], row["end_max"])
    return {place: _walk(walked.get(place, {}), head, points) for place, head in heads.items()}


def bin_ends(window: Window, points: int) -> list[float]:
    """Return the ends of equal bins of a window, in seconds since 1970."""
    start, width = window.since.timestamp(), (window.until - window.since).total_seconds() / points
    return [round(start + width * (number + 1), 3) for number in range(points)]


def _binned(table: pa.Table, window: Window, points: int) -> pa.Table:
    """Return a table with the number of the bin that each entry was recorded in."""
    width = max(1, round((window.until - window.since).total_seconds() * 1e6 / points))
    start = pa.scalar(round(window.since.timestamp() * 1e6), pa.int64())
    passed = pc.subtract(table["entered_at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), start)
    numbers = pc.min_element_wise(pc.divide(passed, pa.scalar(width, pa.int64())), pa.scalar(points - 1, pa.int64()))
    return table.append_column("bin", numbers)


def _walk(steps: Mapping[int, tuple[int, int]], head: int, points: int) -> list[int]:
    """Return the head in each bin: before the first step it is where that one starts, without steps where it is."""
    at = steps[min(steps)][0] if steps else head
    found = []
    for number in range(points):
        at = steps[number][1] if number in steps else at
        found.append(at)
    return found

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
class RunTotals:
    """What all runs of a window recorded together."""

    runs: int
    ranges: int
    recovered: int
    records: int
    dead_letters: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunPage:
    """The newest runs of a window, and the totals of all its runs."""

    runs: list[RunRow]
    totals: RunTotals


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
    others: TopicSeries | None = None
    """The sums of all other topics, if there are any."""


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


def run_page(ledger: Ledger, window: Window, limit: int) -> RunPage:
    """Return the newest runs that recorded something in a window, newest first, and the totals of all of them."""
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
    runs = [
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
    totals = RunTotals(
        runs=grouped.num_rows,
        ranges=found.num_rows,
        recovered=_sum(found["is_recovered"]),
        records=_sum(found["records"]),
        dead_letters=_sum(found["dead_letters"]),
        seconds=_sum(found["seconds"]),
    )
    return RunPage(runs, totals)


def _sum(column: pa.ChunkedArray) -> Any:
    """Return the sum of a column; 0 where it has no value."""
    return pc.sum(column).as_py() or 0


def read_drained_over_time(ledger: Ledger, window: Window) -> pa.Table:
    """Return of the entries in a window what the series of plots are made of. Reading it takes most of their time."""
    columns = ["lane", "topic", "partition", "start", "end", "entered_at", "records", "dead_letters", "seconds"]
    return window.read(ledger, columns)


def topic_series(drained: pa.Table, window: Window, points: int) -> Series:
    """Return what was drained of each topic, in equal bins of a window, without the backlog.

    :param drained: what ``read_drained_over_time`` returned.
    """
    summed = ["records", "dead_letters", "seconds"]
    sums = _binned(drained, window, points).group_by(["topic", "bin"]).aggregate([(name, "sum") for name in summed])
    series: dict[str, TopicSeries] = {}
    for row in to_rows(sums):
        topic, number = row["topic"], row["bin"]
        if topic not in series:
            series[topic] = empty_series(topic, points)
        series[topic].records[number] += row["records_sum"] or 0
        series[topic].dead_letters[number] += row["dead_letters_sum"] or 0
        series[topic].seconds[number] += round(row["seconds_sum"] or 0.0, 3)
    return Series(bin_ends(window, points), [series[topic] for topic in sorted(series)])


def empty_series(topic: str, points: int) -> TopicSeries:
    """Return the series of a topic of which nothing was drained."""
    return TopicSeries(topic, [0] * points, [0] * points, [0.0] * points)


def keep_busiest(series: Series, waiting: Mapping[str, int], most: int) -> Series:
    """Return the series of the topics with the most records, drained or waiting now, and the sum of all others.

    :param waiting: the records that wait now, by topic. A topic that nobody drains is among the busiest by these.
    """
    ranked = sorted(series.series, key=lambda each: -(sum(each.records) + waiting.get(each.topic, 0)))
    rest = ranked[most:]
    if not rest:
        return series
    kept = {each.topic for each in ranked[:most]}
    others = TopicSeries(
        "",
        [sum(values) for values in zip(*(each.records for each in rest), strict=True)],
        [sum(values) for values in zip(*(each.dead_letters for each in rest), strict=True)],
        [round(sum(values), 3) for values in zip(*(each.seconds for each in rest), strict=True)],
    )
    return Series(series.times, [each for each in series.series if each.topic in kept], others)


def heads_over_time(
    drained: pa.Table, window: Window, heads: Mapping[tuple[str, int], int], points: int
) -> dict[tuple[str, int], list[int]]:
    """Return how far each partition was drained at the end of each bin, from the entries and the heads now.

    :param drained: what ``read_drained_over_time`` returned.
    :param heads: of the live lane now, by topic and partition.
    """
    topics = pa.array(sorted({topic for topic, _ in heads}), pa.string())
    is_wanted = pc.and_(pc.equal(drained["lane"], window.graph_id), pc.is_in(drained["topic"], topics))
    found = _binned(drained.filter(is_wanted), window, points)
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

"""What one run did, topic by topic, added up from the ledger's entries. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipestream.ledger.entries import Entry, EntryKind, Tally


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """What a run did in one topic, in one lane."""

    topic: str
    lane: str
    graph_hash: str
    """The version of the graph that it drained with; the last one, where a clearing changed it."""
    ranges: tuple[str, ...]
    """As ``partition:start-end``, which a backfill takes too."""
    recovered_ranges: int
    """How many of them an earlier run drained and could not record."""
    documents_in: int
    documents_out: Mapping[str, int]
    """By edge."""
    dead_letters: int
    seconds: float
    """The time that the drains of the ranges took, added up."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did."""

    run: str
    topics: tuple[TopicSummary, ...]
    documents_in: int
    documents_out: Mapping[str, int]
    dead_letters: int
    seconds: float

    def to_fields(self) -> dict[str, Any]:
        """Return it as plain values, for an XCom."""
        return asdict(self) | {"topics": [asdict(each) | {"ranges": [*each.ranges]} for each in self.topics]}

    def describe(self) -> list[str]:
        """Return it in words, line by line."""
        if not self.topics:
            return [f"{self.run}: no range was drained"]
        head = ("topic", "in", "out", "dead", "seconds", "ranges")
        rows = [head, *map(_cells, self.topics)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, len(widths))), row[-1]])
            for row in rows
        ]
        out = "; ".join(f"{count} by {edge}" for edge, count in self.documents_out.items()) or "none"
        total = f"{self.documents_in} documents in, {self.dead_letters} dead letters, {self.seconds:.1f} s"
        return [f"{self.run}: {total}", *lines, f"documents out: {out}"]


def prefix_of_tasks(run_name: str) -> str:
    """Return what the run ids of the tasks of a run of Airflow begin with: they are called ``DAG/RUN/TASK``."""
    return f"{run_name}/"


def summarize_entries(run: str, entries: Sequence[Entry]) -> RunSummary:
    """Add up the entries of a run by topic and lane, in the order in which the topics were first recorded."""
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.entered_at):
        grouped.setdefault((entry.range.topic, entry.lane), []).append(entry)
    topics = tuple(_summarize_topic(topic, lane, found) for (topic, lane), found in grouped.items())
    total = _add_up(entries)
    return RunSummary(
        run=run,
        topics=topics,
        documents_in=total.records,
        documents_out=dict(sorted(total.documents_out.items())),
        dead_letters=total.dead_letters,
        seconds=sum(entry.seconds for entry in entries),
    )


def _summarize_topic(topic: str, lane: str, entries: Sequence[Entry]) -> TopicSummary:
    total = _add_up(entries)
    return TopicSummary(
        topic=topic,
        lane=lane,
        graph_hash=entries[-1].graph_hash,
        ranges=tuple(f"{entry.range.partition}:{entry.range.start}-{entry.range.end}" for entry in entries),
        recovered_ranges=sum(entry.kind is EntryKind.RECOVERED for entry in entries),
        documents_in=total.records,
        documents_out=dict(sorted(total.documents_out.items())),
        dead_letters=total.dead_letters,
        seconds=sum(entry.seconds for entry in entries),
    )


def _add_up(entries: Sequence[Entry]) -> Tally:
    return sum((entry.tally for entry in entries if entry.tally), Tally())


def _cells(summary: TopicSummary) -> tuple[str, ...]:
    ranges = ", ".join(summary.ranges[:8]) + (f" and {len(summary.ranges) - 8} more" if len(summary.ranges) > 8 else "")
    out = sum(summary.documents_out.values())
    return (
        summary.topic if "@" not in summary.lane else f"{summary.topic} (backfill {summary.lane.partition('@')[2]})",
        str(summary.documents_in),
        str(out),
        str(summary.dead_letters),
        f"{summary.seconds:.1f}",
        ranges,
    )

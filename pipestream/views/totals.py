"""What drains have done since the ledger began, added up for an exporter that is asked every few seconds.

A batch run ends before anybody scrapes it. Its ranges are in the ledger, as are those of streaming drains and sidecars,
and entries are never deleted: so these sums only grow, whatever process made an entry and when it ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipestream.arrow import to_rows
from pipestream.ledger.tables import is_decision
from pipestream.times import utc_now
from pipestream.views.numbers import named_counts

if TYPE_CHECKING:
    import pyarrow as pa

    from pipestream.ledger import Ledger

Counts = Counter[tuple[str, tuple[str, ...]]]
"""Sums by name and by the values of labels. All are whole numbers: a sum of floats depends on the order, and if its
last digit falls, Prometheus takes the counter for a new one and adds all of it once more."""
Totals = Mapping[str, Mapping[tuple[str, ...], float]]
"""The sums by the name of their metric, and each by the values of its labels."""

LABELS = {
    "drained_ranges": ("graph", "topic", "lane", "kind"),
    "drained_records": ("graph", "topic", "lane"),
    "drained_dead_letters": ("graph", "topic", "lane"),
    "drained_seconds": ("graph", "topic", "lane"),
    "drained_documents_out": ("graph", "lane", "way"),
}
LANES = LIVE, BACKFILL = "live", "backfill"

_MICROSECONDS = "drained_microseconds"
_COLUMNS = ["graph_id", "lane", "topic", "kind", "records", "documents_out", "dead_letters", "seconds"]
# Clocks differ, and a commit may be tried again for a while: an entry can arrive in the ledger after one with a later
# time. What is older than this is taken to be there.
_SETTLED_AFTER = timedelta(hours=1)


class DrainTotals:
    """Adds up the ledger's entries. Old ones are read once, those of the last two hours every time.

    They are read in parts: a million entries in memory would take more than the exporter may have in Compose.

    Safe to share between threads, which then take turns.
    """

    def __init__(self, ledger: Ledger, now: Callable[[], datetime] = utc_now) -> None:
        self._ledger = ledger
        self._now = now
        self._settled: Counts = Counter()
        self._settled_until: datetime | None = None
        self._one_at_a_time = threading.Lock()

    def find(self) -> Totals:
        """Return the sums of now.

        :raises TransientError: the ledger did not answer.
        """
        with self._one_at_a_time:
            self._settle()
            counts = self._settled.copy()
            counts.update(self._count(since=self._settled_until))
            return to_totals(counts)

    def _settle(self) -> None:
        until = self._now() - _SETTLED_AFTER
        if self._settled_until is None or until - self._settled_until > _SETTLED_AFTER:
            self._settled.update(self._count(since=self._settled_until, until=until))
            self._settled_until = until

    def _count(self, since: datetime | None, until: datetime | None = None) -> Counts:
        counts: Counts = Counter()
        for part in self._ledger.entries_in_parts(_COLUMNS, since=since, until=until):
            counts.update(count(part))
        return counts


def count(entries: pa.Table) -> Counts:
    """Return the sums of some entries."""
    counts: Counts = Counter()
    microseconds = pc.cast(pc.round(pc.multiply(entries["seconds"], 1e6)), "int64")
    grouped = (
        entries.append_column("microseconds", microseconds)
        .group_by(["graph_id", "lane", "topic", "kind"])
        .aggregate([("kind", "count"), ("records", "sum"), ("dead_letters", "sum"), ("microseconds", "sum")])
    )
    for row in to_rows(grouped):
        labels = (row["graph_id"], row["topic"], LIVE if row["lane"] == row["graph_id"] else BACKFILL)
        counts["drained_ranges", (*labels, row["kind"])] += row["kind_count"]
        for name in ("records", "dead_letters", "microseconds"):
            # A run that died took its counts with it.
            counts[f"drained_{name}", labels] += row[f"{name}_sum"] or 0
    of_live = pc.equal(entries["lane"], entries["graph_id"])
    for lane, chosen in ((LIVE, entries.filter(of_live)), (BACKFILL, entries.filter(pc.invert(of_live)))):
        for graph_id in pc.unique(chosen["graph_id"]).to_pylist():
            of_graph = chosen.filter(pc.equal(chosen["graph_id"], graph_id))
            for way, documents in named_counts(of_graph).items():
                if not is_decision(way):
                    counts["drained_documents_out", (graph_id, lane, way)] += documents
    return counts


def to_totals(counts: Counts) -> Totals:
    """Return counts as metrics show them: microseconds become seconds here, and nowhere before."""
    totals: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in LABELS}
    for (name, labels), value in counts.items():
        if name == _MICROSECONDS:
            totals["drained_seconds"][labels] = value / 1_000_000
        else:
            totals[name][labels] = value
    return totals

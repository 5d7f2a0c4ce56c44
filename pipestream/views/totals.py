"""What drains have done since the ledger began, added up for an exporter that is asked every few seconds.

A batch run ends before anybody scrapes it. Its ranges are in the ledger, as are those of streaming drains and sidecars,
and entries are never deleted: so these sums only grow, whatever process made an entry and when it ended.
"""

from __future__ import annotations

import threading
from collections import defaultdict
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

Sums = Mapping[tuple[str, ...], float]
Totals = Mapping[str, Sums]
"""The sums by the name of their metric, and each by the values of its labels."""

LABELS = {
    "drained_ranges": ("graph", "topic", "lane", "kind"),
    "drained_records": ("graph", "topic", "lane"),
    "drained_dead_letters": ("graph", "topic", "lane"),
    "drained_seconds": ("graph", "topic", "lane"),
    "drained_documents_out": ("graph", "lane", "way"),
}
LIVE, BACKFILL = "live", "backfill"

_COLUMNS = ["graph_id", "lane", "topic", "kind", "records", "documents_out", "dead_letters", "seconds"]
# Clocks differ, and a commit may be tried again for a while: an entry can arrive in the ledger after one with a later
# time. What is older than this is taken to be there.
_SETTLED_AFTER = timedelta(hours=1)


class DrainTotals:
    """Adds up the ledger's entries. Old ones are read once, those of the last two hours every time.

    Safe to share between threads, which then take turns.
    """

    def __init__(self, ledger: Ledger, now: Callable[[], datetime] = utc_now) -> None:
        self._ledger = ledger
        self._now = now
        self._settled: Totals = _no_totals()
        self._settled_until: datetime | None = None
        self._one_at_a_time = threading.Lock()

    def find(self) -> Totals:
        """Return the sums of now.

        :raises TransientError: the ledger did not answer.
        """
        with self._one_at_a_time:
            self._settle()
            return _add(self._settled, self._count(since=self._settled_until))

    def _settle(self) -> None:
        until = self._now() - _SETTLED_AFTER
        if self._settled_until is None or until - self._settled_until > _SETTLED_AFTER:
            self._settled = _add(self._settled, self._count(since=self._settled_until, until=until))
            self._settled_until = until

    def _count(self, since: datetime | None, until: datetime | None = None) -> Totals:
        return count(self._ledger.entries_table(_COLUMNS, since=since, until=until))


def count(entries: pa.Table) -> Totals:
    """Return the sums of some entries, in Arrow: a ledger has many."""
    totals = _no_totals()
    grouped = entries.group_by(["graph_id", "lane", "topic", "kind"]).aggregate(
        [("kind", "count"), ("records", "sum"), ("dead_letters", "sum"), ("seconds", "sum")]
    )
    for row in to_rows(grouped):
        labels = (row["graph_id"], row["topic"], LIVE if row["lane"] == row["graph_id"] else BACKFILL)
        totals["drained_ranges"][*labels, row["kind"]] += row["kind_count"]
        for name in ("records", "dead_letters", "seconds"):
            # A run that died took its counts with it.
            totals[f"drained_{name}"][labels] += row[f"{name}_sum"] or 0
    of_live = pc.equal(entries["lane"], entries["graph_id"])
    for lane, chosen in ((LIVE, entries.filter(of_live)), (BACKFILL, entries.filter(pc.invert(of_live)))):
        for graph_id in pc.unique(chosen["graph_id"]).to_pylist():
            of_graph = chosen.filter(pc.equal(chosen["graph_id"], graph_id))
            for way, documents in named_counts(of_graph).items():
                if not is_decision(way):
                    totals["drained_documents_out"][graph_id, lane, way] += documents
    return totals


def _no_totals() -> dict[str, defaultdict[tuple[str, ...], float]]:
    return {name: defaultdict(float) for name in LABELS}


def _add(one: Totals, other: Totals) -> Totals:
    total = _no_totals()
    for each in (one, other):
        for name, sums in each.items():
            for labels, value in sums.items():
                total[name][labels] += value
    return total

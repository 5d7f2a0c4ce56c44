"""Does planning cost the same at 100 and at 1,000,000 entries? Fills two ledgers and compares, in one run."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

import pytest

from pipestream.ledger import Entry, EntryKind, Ledger, Tally
from pipestream.offsets.ranges import OffsetRange
from pipestream.settings import Settings

pytestmark = pytest.mark.slow

TOPIC, LANE, PARTITIONS = "intake.a", "g", 4
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(partition, start):
    return Entry(
        lane=LANE,
        range=OffsetRange(TOPIC, partition, start, start + 10),
        topic_id="id-1",
        kind=EntryKind.DRAINED,
        run_id=f"run-{start}",
        plan_id=f"run-{start}|{TOPIC}|0",
        graph_id="g",
        graph_hash="h" * 64,
        holder="me",
        token=1,
        tally=Tally(10, {"a--b": 9}, 1),
        seconds=0.5,
        entered_at=NOW,
    )


def fill(ledger, entries):
    """Enter as many entries, ten thousand a commit at most, and tidy up as the maintenance job does."""
    made = 0
    while made < entries:
        batch = min(10_000, entries - made) // PARTITIONS or 1
        start = (made // PARTITIONS) * 10
        ledger.enter([entry(p, start + 10 * n) for p in range(PARTITIONS) for n in range(batch)])
        made += batch * PARTITIONS
    for uri in ledger.table_uris():
        table = ledger.open_table(uri)
        table.optimize.compact()
        table.create_checkpoint()


def plan_once(ledger):
    """What a run asks the ledger before and after its plan."""
    started = time.perf_counter()
    ledger.is_same_topic(LANE, TOPIC, "id-1")
    ledger.find_plan("another run")
    ledger.heads(LANE, TOPIC, range(PARTITIONS))
    return time.perf_counter() - started


def test_planning_costs_the_same_however_long_the_history_is(tmp_path):
    ledgers = {}
    for entries in (100, 1_000_000):
        ledgers[entries] = Ledger(Settings(ledger_uri=(tmp_path / str(entries)).as_uri()))
        fill(ledgers[entries], entries)
    seconds = {entries: [] for entries in ledgers}
    # Taken in turns, so that whatever else the machine does meanwhile falls on both alike.
    for _ in range(300):
        for entries, ledger in ledgers.items():
            seconds[entries].append(plan_once(ledger))
    medians = {entries: statistics.median(taken) for entries, taken in seconds.items()}
    for entries, median in medians.items():
        print(f"{entries:>9,} entries: {median * 1000:6.2f} ms to look up before a plan")
    print(f"ratio: {medians[1_000_000] / medians[100]:.2f}")

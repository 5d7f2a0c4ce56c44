"""Does a run's work with the ledger cost the same at 100 and at 1,000,000 entries? Fills two ledgers and compares."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger, Tally, plan_store
from pipestream.ledger.delta import append
from pipestream.ledger.entries import plan_rows
from pipestream.ledger.upkeep import tidy
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream_testing.made import TOPIC, make_entry, make_plan

pytestmark = pytest.mark.slow

LANE, PARTITIONS = "g", 4
TALLY = Tally(10, {"a--b": 9}, 1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
# Entries and plans of each ledger. A plan is a file of its own, so these are fewer.
SIZES = {"small": (100, 25), "large": (1_000_000, 100_000)}
ROUNDS = 100
MOST = 1.5


def entry(partition, start, run_id, entered_at):
    return make_entry(
        start, start + 10, partition=partition, run_id=run_id, graph_hash="h" * 64, tally=TALLY, entered_at=entered_at
    )


def plan(run_id, start, planned_at):
    ranges = [OffsetRange(TOPIC, partition, start, start + 10) for partition in range(PARTITIONS)]
    return make_plan(*ranges, run_id=run_id, graph_hash="h" * 64, planned_at=planned_at)


def fill_entries(ledger, count):
    """Enter so many, ten thousand a commit at most."""
    made = 0
    while made < count:
        batch = min(10_000, count - made) // PARTITIONS
        first = made // PARTITIONS
        ledger.enter(
            [
                entry(p, 10 * n, f"old-{n}", LONG_AGO + timedelta(seconds=n))
                for p in range(PARTITIONS)
                for n in range(first, first + batch)
            ]
        )
        made += batch * PARTITIONS


def fill_plans(ledger, settings, count):
    """Write what ``write_plan`` would, for many plans at once."""
    ledger.table_uris()
    with open_store(settings.ledger_uri, settings) as store:
        for first in range(0, count, 5_000):
            batch = [
                plan(f"old-{n}", 10 * n, LONG_AGO + timedelta(seconds=n))
                for n in range(first, min(first + 5_000, count))
            ]
            store.put_many(
                [(plan_store._key(each.plan_id), plan_store._encode(each, is_listed=True)) for each in batch]
            )
            table = ledger.delta_tables()["plans"]
            append(table, pa.concat_tables([plan_rows(each) for each in batch]), {f"plans/{TOPIC}": first + 1})


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    made = {}
    for name, (entries, plans) in SIZES.items():
        settings = Settings(ledger_uri=tmp_path_factory.mktemp(name).as_uri())
        made[name] = Ledger(settings)
        fill_entries(made[name], entries)
        fill_plans(made[name], settings, plans)
        for table_name, table in made[name].delta_tables().items():
            tidy(table_name, table)
    return made


def run_once(ledger, number):
    """Do what one run asks of the ledger, and return the seconds of each step."""
    run_id, now = f"new-{number}", datetime.now(UTC)
    seconds = {}

    def timed(step, work, *arguments, **named):
        started = time.perf_counter()
        found = work(*arguments, **named)
        seconds[step] = time.perf_counter() - started
        return found

    heads = timed("heads", ledger.heads, LANE, TOPIC, range(PARTITIONS))
    assert timed("topic", ledger.is_same_topic, LANE, TOPIC, "id-1")
    assert timed("no plan", ledger.find_plan, f"{run_id}|{TOPIC}|0") is None
    own = plan(run_id, heads[0], now)
    timed("write plan", ledger.write_plan, own)
    assert timed("find plan", ledger.find_plan, own.plan_id) == own
    timed("enter", ledger.enter, [replace(entry(r.partition, r.start, run_id, now), range=r) for r in own.ranges])
    entered = timed("entered", ledger.entries, lane=LANE, topic=TOPIC, plan_id=own.plan_id, since=own.planned_at)
    assert len(entered) == PARTITIONS
    return seconds | {"planning": sum(seconds[s] for s in ("heads", "topic", "no plan", "write plan"))}


@pytest.mark.timeout(1800)
def test_a_run_costs_the_same_however_long_the_history_is(ledgers):
    taken = {name: [] for name in ledgers}
    # Taken in turns, so that whatever else the machine does meanwhile falls on both alike.
    for number in range(ROUNDS):
        for name, ledger in ledgers.items():
            taken[name].append(run_once(ledger, number))
    ratios = {}
    print(f"\n{'step':12} {'100 entries':>14} {'1,000,000':>14}   ratio")
    for step in taken["small"][0]:
        small, large = (statistics.median(each[step] for each in taken[name]) for name in ("small", "large"))
        ratios[step] = large / small
        print(f"{step:12} {small * 1000:11.2f} ms {large * 1000:11.2f} ms   {ratios[step]:5.2f}")
    assert ratios["planning"] <= MOST
    assert max(ratios.values()) <= MOST, ratios

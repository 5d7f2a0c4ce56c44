"""Does a run's work with the ledger cost the same at 100 and at 1,000,000 entries, and how does it grow with topics?

Fills ledgers and compares them in turns. The rival is what a Spark job would do in our place: a MERGE into a Delta
table of as many rows, in a session that is up already.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger, Tally, plan_store
from pipestream.ledger.delta import append
from pipestream.ledger.tables import plan_rows
from pipestream.ledger.upkeep import tidy
from pipestream.local.jars import delta_jars, spark_home
from pipestream.local.spark import spark_programs_environment
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream_testing.bench import sized
from pipestream_testing.made import TOPIC, make_entry, make_plan

pytestmark = pytest.mark.slow

LANE, PARTITIONS = "g", 4
TALLY = Tally(10, {"a--b": 9}, 1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
# Entries and plans of each ledger. A plan is a file of its own, so these are fewer.
SIZES = {100: 25, 10_000: 2_500} | sized({1_000_000: 100_000}, {})
TOPICS = (1, 100, 1_000)
ROUNDS = sized(100, 10)
MERGES = sized(5, 3)
SPARK_MERGE = Path(__file__).parent / "rivals" / "spark_merge.py"


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
    for entries, plans in SIZES.items():
        settings = Settings(ledger_uri=tmp_path_factory.mktemp(f"of-{entries}").as_uri())
        made[entries] = Ledger(settings)
        fill_entries(made[entries], entries)
        fill_plans(made[entries], settings, plans)
        for table_name, table in made[entries].delta_tables().items():
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
    assert timed("no plan", ledger.find_plan, f"{run_id}|{TOPIC}|0", LANE) is None
    own = plan(run_id, heads[0], now)
    timed("write plan", ledger.write_plan, own)
    assert timed("find plan", ledger.find_plan, own.plan_id, LANE) == own
    timed("enter", ledger.enter, [replace(entry(r.partition, r.start, run_id, now), range=r) for r in own.ranges])
    entered = timed("entered", ledger.entries, lane=LANE, topic=TOPIC, plan_id=own.plan_id, since=own.planned_at)
    assert len(entered) == PARTITIONS
    return seconds | {"planning": sum(seconds[s] for s in ("heads", "topic", "no plan", "write plan"))}


@pytest.mark.timeout(1800)
def test_a_run_costs_the_same_however_long_the_history_is(ledgers, tmp_path, scenario):
    taken = {entries: [] for entries in ledgers}
    # Taken in turns, so that whatever else the machine does meanwhile falls on all alike.
    for number in range(ROUNDS):
        for entries, ledger in ledgers.items():
            taken[entries].append(run_once(ledger, number))
    made = scenario("ledger-length", "Plan and record a run of four partitions, by the length of the ledger")
    for entries, rounds in taken.items():
        made.add(f"plan, {entries:,} entries", "ms", *(1e3 * each["planning"] for each in rounds))
        made.add(f"record, {entries:,} entries", "ms", *(1e3 * each["enter"] for each in rounds))
    short, long = min(SIZES), max(SIZES)
    made.add(
        f"Spark-Delta merge, {long:,} rows", "ms", *(1e3 * each for each in merge_s(tmp_path, long)), is_rival=True
    )
    for step in ("plan", "record"):
        ratio = made.median(f"{step}, {long:,} entries") / made.median(f"{step}, {short:,} entries")
        made.want(f"times as long to {step} at {long:,} entries as at {short:,}", ratio, at_most=1.5)
    merge = made.median(f"Spark-Delta merge, {long:,} rows")
    made.want("times as fast as the merge", merge / made.median(f"record, {long:,} entries"), at_least=20)


def merge_s(folder, rows):
    """Return the seconds of merges of four rows each into a Delta table, by Spark."""
    jars = ",".join(str(jar) for jar in delta_jars())
    options = ["--master", "local[2]", "--jars", jars, "--conf", "spark.ui.enabled=false"]
    command = [spark_home() / "bin" / "spark-submit", *options, SPARK_MERGE, folder / "merged", str(rows), str(MERGES)]
    environment = {**os.environ, **spark_programs_environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    return [float(each) for each in done.stdout.split()]


def test_many_topics_are_planned_and_recorded_at_once(tmp_path, scenario):
    made = scenario("ledger-topics", "Read the heads of all topics and record a range of each, in one commit")
    for topics in TOPICS:
        ledger = Ledger(Settings(ledger_uri=(tmp_path / str(topics)).as_uri()))
        names = [f"intake.t{number:04}" for number in range(topics)]
        taken = []
        for number in range(sized(10, 3)):
            started = time.perf_counter()
            heads = ledger.heads_of([(LANE, name, 0) for name in names])
            assert set(heads.values()) <= {10 * number}
            ledger.enter(
                [
                    make_entry(10 * number, 10 * number + 10, topic=name, run_id=f"run-{number}", topic_id=f"id-{name}")
                    for name in names
                ]
            )
            taken.append(time.perf_counter() - started)
        made.add(f"{topics:,} topics", "s", *taken)
    made.want("seconds for 1,000 topics", made.median("1,000 topics"), at_most=3)

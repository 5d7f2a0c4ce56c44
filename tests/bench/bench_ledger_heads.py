"""Does a run's work with the ledger cost the same at 100 and at 1,000,000 entries, and how does it grow with topics?

Fills ledgers and compares them in turns. The rival is what a Spark job would do in our place: a MERGE into a Delta
table of as many rows, in a session that is up already.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipestream.drain.cost_history import CostHistory
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger, Tally, plan_store
from pipestream.ledger.delta import append
from pipestream.ledger.tables import ENTRIES_SCHEMA, entry_rows, plan_rows
from pipestream.ledger.upkeep import tidy
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream_testing.bench import sized
from pipestream_testing.made import TOPIC, make_entry, make_plan

pytestmark = pytest.mark.slow

LANE, PARTITIONS = "g", 4
TALLY = Tally(10, {"a--b": 9}, 1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
# Entries and plans of each ledger. A plan is a file of its own, so these are fewer.
SIZES = {100: 25, 10_000: sized(2_500, 500), sized(1_000_000, 200_000): sized(100_000, 500)}
TOPICS = (1, 100, 1_000)
ROUNDS = sized(50, 10)
DAY_S = 86_400
WEEK_S = sized(7, 1) * DAY_S
RECORD_S = int(Settings().stream_record_s)
MERGES = sized(5, 2)


def entry(partition, start, run_id, entered_at):
    return make_entry(
        start, start + 10, partition=partition, run_id=run_id, graph_hash="h" * 64, tally=TALLY, entered_at=entered_at
    )


def plan(run_id, start, planned_at):
    ranges = [OffsetRange(TOPIC, partition, start, start + 10) for partition in range(PARTITIONS)]
    return make_plan(*ranges, run_id=run_id, graph_hash="h" * 64, planned_at=planned_at)


def fill_entries(ledger, count):
    """Write what ``enter`` would for so many ranges, in a few large commits: column by column, not entry by entry."""
    ledger.table_uris()
    # The first entries go in as ever, and are the pattern for the columns that all have in common.
    ledger.enter([entry(p, 0, "old-0", LONG_AGO) for p in range(PARTITIONS)])
    pattern = ledger.delta_tables()["entries"].to_pyarrow_dataset().head(1)
    runs = count // PARTITIONS
    for first in range(1, runs, 50_000):
        last = min(first + 50_000, runs)
        table = ledger.delta_tables()["entries"]
        append(table, entry_columns(pattern, first, last), {head_app(p): 10 * last for p in range(PARTITIONS)})


def head_app(partition):
    return f"head/{LANE}/{TOPIC}/{partition}"


def entry_columns(pattern, first, last):
    """Return the entries of some runs, a range of each partition, as ``entry`` makes them."""
    number = np.repeat(np.arange(first, last), PARTITIONS)
    names = pa.array([f"old-{n}" for n in range(first, last)]).take(pa.array(number - first))
    own = {"run_id": names, "plan_id": pc.binary_join_element_wise(names, TOPIC, "0", "|")}
    return columns_of(pattern, number, int(LONG_AGO.timestamp()) + number, own)


def stream_columns(pattern, first, last, begun_s):
    """Return what one stream recorded: an entry of each partition at a time, ``stream_record_s`` apart."""
    number = np.repeat(np.arange(first, last), PARTITIONS)
    return columns_of(pattern, number, begun_s + RECORD_S * number, {})


def columns_of(pattern, number, entered_s, own):
    own |= {
        "partition": pa.array(np.tile(np.arange(PARTITIONS), len(number) // PARTITIONS), pa.int32()),
        "start": pa.array(10 * number, pa.int64()),
        "end": pa.array(10 * number + 10, pa.int64()),
        "entered_at": pa.array(entered_s * 1_000_000, pa.int64()).cast(ENTRIES_SCHEMA.field("entered_at").type),
    }
    same = pa.array(np.zeros(len(number), dtype=np.int64))
    columns = [own.get(field.name, pattern.column(field.name).take(same)) for field in ENTRIES_SCHEMA]
    return pa.table(columns, schema=ENTRIES_SCHEMA)


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
    timed("cost", CostHistory(ledger, LANE, TOPIC).seconds_per_document, "h" * 64)
    own = plan(run_id, heads[0], now)
    timed("write plan", ledger.write_plan, own)
    assert timed("find plan", ledger.find_plan, own.plan_id, LANE) == own
    timed("enter", ledger.enter, [replace(entry(r.partition, r.start, run_id, now), range=r) for r in own.ranges])
    entered = timed("entered", ledger.entries, lane=LANE, topic=TOPIC, plan_id=own.plan_id, since=own.planned_at)
    assert len(entered) == PARTITIONS
    return seconds | {"planning": sum(seconds[s] for s in ("heads", "topic", "no plan", "cost", "write plan"))}


@pytest.mark.stack  # of the Spark session, which other benchmarks use on it
@pytest.mark.spark
def test_a_run_costs_the_same_however_long_the_history_is(ledgers, tmp_path, scenario, spark):
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
    merge = f"Spark-Delta merge, {long:,} rows"
    made.add(merge, "ms", *(1e3 * each for each in merge_s(spark, tmp_path / "merged", long)), is_rival=True)
    for step in ("plan", "record"):
        made.want_ratio(
            f"times as long to {step} at {long:,} entries as at {short:,}",
            f"{step}, {long:,} entries",
            f"{step}, {short:,} entries",
            at_most=1.5,
        )
    faster = made.median(merge) / made.median(f"record, {long:,} entries")
    made.want(f"times as fast to record as the merge ({made.median(merge):,.0f} ms)", faster, at_least=20)


def test_a_week_of_a_stream_tells_a_run_what_a_document_costs(tmp_path, scenario):
    ledger = Ledger(Settings(ledger_uri=tmp_path.as_uri()))
    ledger.table_uris()
    pattern = entry_rows([replace(entry(0, 0, "stream", LONG_AGO), seconds=2.0)])
    begun_s = int(datetime.now(UTC).timestamp()) - WEEK_S + 3_600
    for first in range(0, WEEK_S // RECORD_S, DAY_S // RECORD_S):
        columns = stream_columns(pattern, first, first + DAY_S // RECORD_S, begun_s)
        append(ledger.delta_tables()["entries"], columns, {head_app(0): first + 1})
    for table_name, table in ledger.delta_tables().items():
        tidy(table_name, table)
    taken = []
    for _ in range(sized(10, 3)):
        started = time.perf_counter()
        cost_s = CostHistory(ledger, LANE, TOPIC).seconds_per_document("h" * 64)
        taken.append(time.perf_counter() - started)
        assert cost_s == pytest.approx(0.2, rel=0.01)
    made = scenario(
        "ledger-cost", "Find the cost of a document in a week of a stream, by the entries of its partitions"
    )
    entries = f"{PARTITIONS * (WEEK_S // RECORD_S):,} entries"
    made.add(entries, "s", *taken)
    made.want_of("seconds for a week of a stream", entries, at_most=3)


def merge_s(spark, folder, rows):
    """Return the seconds of merges of four rows each into a Delta table, by Spark."""
    session = spark.find()
    columns = [
        "'intake.a' as topic",
        "int(id % 4) as partition",
        "int(id / 4) * 10 as start",
        "int(id / 4) * 10 + 10 as end",
    ]
    session.range(rows).selectExpr(*columns).write.format("delta").save(str(folder))
    taken = []
    for number in range(MERGES + 1):
        session.range(rows + 4 * number, rows + 4 * number + 4).selectExpr(*columns).createOrReplaceTempView("new")
        started = time.perf_counter()
        session.sql(
            f"MERGE INTO delta.`{folder}` as old USING new "
            "ON old.topic = new.topic AND old.partition = new.partition AND old.start = new.start "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        taken.append(time.perf_counter() - started)
    assert session.read.format("delta").load(str(folder)).count() == rows + 4 * (MERGES + 1)
    return taken[1:]  # the first one compiles


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
        made.add("1 topic" if topics == 1 else f"{topics:,} topics", "s", *taken)
    made.want_of("seconds for 1,000 topics", "1,000 topics", at_most=3)

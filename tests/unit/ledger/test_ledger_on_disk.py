from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

import pytest

from pipestream.errors import LedgerConflict, StoreUnavailable
from pipestream.ledger import Entry, EntryKind, Ledger, Plan, Tally
from pipestream.offsets.ranges import OffsetRange
from pipestream.settings import Settings

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))


def entry(start, end, *, partition=0, lane="g", topic="intake.a", topic_id="id-1", run_id="run-1", tally=None):
    return Entry(
        lane=lane,
        range=OffsetRange(topic, partition, start, end),
        topic_id=topic_id,
        kind=EntryKind.DRAINED,
        run_id=run_id,
        plan_id=f"{run_id}|{topic}|0",
        graph_id="g",
        graph_hash="h",
        holder="me",
        token=1,
        tally=tally,
        seconds=0.25,
        entered_at=NOW,
    )


def plan(plan_id="run-1|intake.a|0"):
    ranges = (OffsetRange("intake.a", 0, 5, 9), OffsetRange("intake.a", 1, 0, 3))
    return Plan(plan_id, "run-1", "g", "intake.a", "id-1", 0, "g", "h", ranges, "me", 7, NOW)


def test_a_partition_never_entered_has_no_head(ledger):
    assert ledger.heads("g", "intake.a", [0, 1]) == {}


def test_entering_ranges_moves_their_heads_together(ledger):
    ledger.enter([entry(0, 10), entry(0, 4, partition=1)])
    ledger.enter([entry(10, 12), entry(4, 9, partition=1)])

    assert ledger.heads("g", "intake.a", [0, 1, 2]) == {0: 12, 1: 9}


def test_an_entry_comes_back_as_it_was_entered(ledger):
    full = entry(0, 10, tally=Tally(9, {"a--b": 7, "happy-end": 1}, 1))
    ledger.enter([full, entry(0, 3, partition=1)])

    assert ledger.entries(topic="intake.a") == [full, entry(0, 3, partition=1)]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(0, 10, id="the same range again"),
        pytest.param(5, 15, id="a range that overlaps"),
        pytest.param(11, 15, id="a range that leaves a gap"),
    ],
)
def test_a_range_that_does_not_start_at_the_head_changes_nothing(ledger, start, end):
    ledger.enter([entry(0, 10)])

    with pytest.raises(LedgerConflict, match="head is 10"):
        ledger.enter([entry(0, 5, partition=1), entry(start, end)])

    assert ledger.heads("g", "intake.a", [0, 1]) == {0: 10}


def test_lanes_have_heads_of_their_own(ledger):
    ledger.enter([entry(0, 10)])
    ledger.enter([entry(0, 3, lane="g@backfill-1")])

    assert ledger.heads("g", "intake.a", [0]) == {0: 10}
    assert ledger.heads("g@backfill-1", "intake.a", [0]) == {0: 3}


def test_two_ranges_of_one_partition_may_be_entered_in_one_commit_if_they_join(ledger):
    ledger.enter([entry(4, 9), entry(0, 4)])

    assert ledger.heads("g", "intake.a", [0]) == {0: 9}


def test_of_two_writers_of_one_head_exactly_one_wins_every_time(ledger):
    rounds, together = 30, Barrier(2)

    def race(run_id):
        won = 0
        for number in range(rounds):
            together.wait()
            try:
                ledger.enter([entry(number, number + 1, run_id=run_id)])
                won += 1
            except LedgerConflict:
                pass
            together.wait()
        return won

    with ThreadPoolExecutor(2) as pool:
        wins = list(pool.map(race, ["run-a", "run-b"]))

    assert sum(wins) == rounds
    assert [e.range.start for e in ledger.entries()] == list(range(rounds))


def test_writers_of_different_partitions_do_not_disturb_each_other(ledger):
    def fill(partition):
        for number in range(15):
            ledger.enter([entry(number, number + 1, partition=partition)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, [0, 1]))

    assert ledger.heads("g", "intake.a", [0, 1]) == {0: 15, 1: 15}


def test_a_topic_made_again_under_the_same_name_is_noticed(ledger):
    ledger.enter([entry(0, 10)])

    assert ledger.is_same_topic("g", "intake.a", "id-1")
    assert not ledger.is_same_topic("g", "intake.a", "id-2")
    with pytest.raises(LedgerConflict, match="made again"):
        ledger.enter([entry(10, 12, topic_id="id-2")])


def test_a_rebaseline_moves_the_head_and_accepts_the_new_topic(ledger):
    ledger.enter([entry(0, 10)])

    ledger.rebaseline([entry(0, 2, topic_id="id-2")])

    assert ledger.is_same_topic("g", "intake.a", "id-2")
    assert ledger.heads("g", "intake.a", [0]) == {0: 2}


def test_a_plan_comes_back_as_it_was_written(ledger):
    ledger.write_plan(plan())

    assert ledger.find_plan(plan().plan_id) == plan()
    assert ledger.find_plan("another") is None


def test_a_plan_is_never_replaced(ledger):
    ledger.write_plan(plan())

    with pytest.raises(LedgerConflict, match="exists already"):
        ledger.write_plan(plan())


def test_a_quote_in_an_id_is_only_a_quote(ledger):
    ledger.write_plan(plan("it's' OR 1=1 --"))

    assert ledger.find_plan("it's' OR 1=1 --") == plan("it's' OR 1=1 --")
    assert ledger.entries(run_id="x' OR '1'='1") == []


def test_a_store_that_does_not_answer_is_trouble_that_a_retry_may_mend():
    settings = Settings(
        ledger_uri="s3://nowhere/ledger", s3_endpoint="http://127.0.0.1:1", s3_access_key="a", s3_secret_key="b"
    )

    with pytest.raises(StoreUnavailable, match="the ledger"):
        Ledger(settings).heads("g", "intake.a", [0])

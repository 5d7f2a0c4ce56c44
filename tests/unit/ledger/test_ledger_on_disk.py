from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake.exceptions import CommitFailedError

from pipestream.errors import LedgerBusy, LedgerConflict, StoreUnavailable
from pipestream.ledger import EntryKind, Ledger, Tally
from pipestream.ledger import ledger as ledger_module
from pipestream.ledger.delta import append
from pipestream.ledger.entries import HeadMove
from pipestream.settings import Settings
from pipestream_testing.made import MADE_AT, make_entry
from pipestream_testing.together import together


@pytest.fixture
def ledger(tmp_path):
    return Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))


def test_a_partition_never_entered_has_no_head(ledger):
    assert ledger.heads("g", "intake.a", [0, 1]) == {}


def test_entering_ranges_moves_their_heads_together(ledger):
    ledger.enter([make_entry(0, 10), make_entry(0, 4, partition=1)])
    ledger.enter([make_entry(10, 12), make_entry(4, 9, partition=1)])

    assert ledger.heads("g", "intake.a", [0, 1, 2]) == {0: 12, 1: 9}


def test_an_entry_comes_back_as_it_was_entered(ledger):
    full = make_entry(0, 10, tally=Tally(9, {"a--b": 7, "happy-end": 1}, 1))
    ledger.enter([full, make_entry(0, 3, partition=1)])

    assert ledger.entries(topic="intake.a") == [full, make_entry(0, 3, partition=1)]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(0, 10, id="the same range again"),
        pytest.param(5, 15, id="a range that overlaps"),
        pytest.param(11, 15, id="a range that leaves a gap"),
    ],
)
def test_a_range_that_does_not_start_at_the_head_changes_nothing(ledger, start, end):
    ledger.enter([make_entry(0, 10)])

    with pytest.raises(LedgerConflict, match="head is 10"):
        ledger.enter([make_entry(0, 5, partition=1), make_entry(start, end)])

    assert ledger.heads("g", "intake.a", [0, 1]) == {0: 10}


def test_heads_that_were_asked_for_before_are_those_of_now(ledger, tmp_path):
    places = [("g", "intake.a", 0), ("g", "intake.a", 1)]
    other = Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))
    ledger.enter([make_entry(0, 10)])
    first = ledger.heads_of(places)
    other.enter([make_entry(10, 12), make_entry(0, 4, partition=1)])
    second = ledger.heads_of(places)
    shutil.rmtree(tmp_path / "ledger")
    empty = ledger.heads_of(places)
    other.enter([make_entry(0, 3)])
    other.enter([make_entry(3, 5)])

    assert (first, second) == ({places[0]: 10}, {places[0]: 12, places[1]: 4})
    assert (empty, ledger.heads_of(places)) == ({}, {places[0]: 5})


def test_lanes_have_heads_of_their_own(ledger):
    ledger.enter([make_entry(0, 10)])
    ledger.enter([make_entry(0, 3, lane="g@backfill-1")])

    assert ledger.heads("g", "intake.a", [0]) == {0: 10}
    assert ledger.heads("g@backfill-1", "intake.a", [0]) == {0: 3}


def test_two_ranges_of_one_partition_may_be_entered_in_one_commit_if_they_join(ledger):
    ledger.enter([make_entry(4, 9), make_entry(0, 4)])

    assert ledger.heads("g", "intake.a", [0]) == {0: 9}


def test_writers_of_different_partitions_do_not_disturb_each_other(ledger):
    def fill(partition):
        for number in range(15):
            ledger.enter([make_entry(number, number + 1, partition=partition)])

    together(2, fill)

    assert ledger.heads("g", "intake.a", [0, 1]) == {0: 15, 1: 15}


def test_a_topic_made_again_under_the_same_name_is_noticed(ledger):
    ledger.enter([make_entry(0, 10)])

    assert ledger.is_same_topic("g", "intake.a", "id-1")
    assert not ledger.is_same_topic("g", "intake.a", "id-2")
    with pytest.raises(LedgerConflict, match="made again"):
        ledger.enter([make_entry(10, 12, topic_id="id-2")])


def move(start, end, **fields):
    moved = make_entry(0, 1, **fields)
    return replace(
        moved, range=HeadMove("intake.a", moved.range.partition, start, end), kind=EntryKind.REBASELINED, plan_id=""
    )


def test_a_rebaseline_moves_the_head_and_accepts_the_new_topic(ledger):
    ledger.enter([make_entry(0, 10)])

    ledger.rebaseline([move(10, 2, topic_id="id-2")])

    assert ledger.is_same_topic("g", "intake.a", "id-2")
    assert ledger.heads("g", "intake.a", [0]) == {0: 2}


def test_a_rebaseline_that_found_another_head_changes_nothing_and_may_be_tried_again(ledger):
    ledger.enter([make_entry(0, 10)])

    with pytest.raises(LedgerBusy, match="moved from 8 to 10 meanwhile"):
        ledger.rebaseline([move(8, 2, topic_id="id-2")])

    assert ledger.heads("g", "intake.a", [0]) == {0: 10}
    assert ledger.is_same_topic("g", "intake.a", "id-1")


def test_a_quote_in_an_id_is_only_a_quote(ledger):
    ledger.enter([make_entry(0, 10, run_id="it's' OR 1=1 --")])

    assert len(ledger.entries(run_id="it's' OR 1=1 --")) == 1
    assert ledger.entries(run_id="x' OR '1'='1") == []


def test_entries_are_found_by_what_the_ids_of_their_runs_begin_with(ledger):
    for number, run_id in enumerate(["dag_1/it's%/a", "dag_1/it's%/b", "dag_1/it's%1/a", "dag-1/it's%/a"]):
        ledger.enter([make_entry(number, number + 1, run_id=run_id)])

    assert [e.run_id for e in ledger.entries(run_prefix="dag_1/it's%/")] == ["dag_1/it's%/a", "dag_1/it's%/b"]


def test_entries_are_found_by_their_graph_its_backfills_included(ledger):
    ledger.enter([make_entry(0, 1), make_entry(0, 2, lane="g@b"), make_entry(0, 3, lane="h", graph_id="h")])

    assert [e.lane for e in ledger.entries(graph_id="g")] == ["g", "g@b"]


def test_entries_are_found_by_the_time_they_were_entered(ledger):
    later = MADE_AT + timedelta(microseconds=1)
    ledger.enter([make_entry(0, 10)])
    ledger.enter([replace(make_entry(10, 12), entered_at=later)])

    assert [e.range.start for e in ledger.entries(since=MADE_AT)] == [0, 10]
    assert [e.range.start for e in ledger.entries(since=later)] == [10]


def test_the_partitions_that_have_entries_are_listed_once_each(ledger):
    ledger.enter([make_entry(0, 10), make_entry(0, 4, partition=3)])
    ledger.enter([make_entry(10, 12)])
    ledger.enter([make_entry(0, 1, lane="g@backfill")])

    assert ledger.partitions(lane="g") == [("g", "intake.a", 0), ("g", "intake.a", 3)]
    assert ledger.partitions(topic="intake.b") == []


def test_reading_a_ledger_that_is_not_there_finds_nothing_and_makes_nothing(ledger, tmp_path):
    assert ledger.heads("g", "intake.a", [0]) == {}
    assert ledger.is_same_topic("g", "intake.a", "id-1")
    assert ledger.find_plan("plan", "g") is None
    assert (ledger.entries(), ledger.plans(), ledger.partitions(), ledger.delta_tables()) == ([], [], [], {})
    assert ledger.with_tasks([]) == []
    assert ledger.entries_table(["lane", "entered_at"]).num_rows == 0
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_blank_in_its_name_is_found(tmp_path):
    folder = tmp_path / "my ledger"
    Ledger(Settings(ledger_uri=folder.as_uri())).enter([make_entry(0, 10)])

    assert {path.name for path in folder.iterdir()} == {"entries"}


def test_many_first_users_at_once_make_one_ledger(tmp_path):
    for attempt in range(5):
        settings = Settings(ledger_uri=(tmp_path / str(attempt)).as_uri())

        together(16, lambda number, own=settings: Ledger(own).enter([make_entry(0, 3, partition=number)]))

        assert Ledger(settings).heads("g", "intake.a", range(16)) == dict.fromkeys(range(16), 3)


def test_slots_that_begin_a_topic_at_once_all_begin_it(ledger):
    def begin(slot):
        skipped = replace(make_entry(0, 5, partition=slot), kind=EntryKind.SKIPPED)
        return ledger.begin("g", "intake.a", "id-1", {slot: 5}, [skipped])

    assert together(8, begin) == [{slot: 5} for slot in range(8)]
    assert ledger.heads("g", "intake.a", range(8)) == dict.fromkeys(range(8), 5)
    assert len(ledger.entries()) == 8


def test_a_partition_begins_once_and_the_first_answer_holds_for_all(ledger):
    first = ledger.begin("g", "intake.a", "id-1", {0: 5}, [make_entry(0, 5)])
    second = ledger.begin("g", "intake.a", "id-1", {0: 9, 1: 7}, [make_entry(0, 9), make_entry(0, 7, partition=1)])
    third = ledger.begin("g", "intake.a", "id-1", {0: 1, 1: 1}, [])

    assert (first, second, third) == ({0: 5}, {0: 5, 1: 7}, {0: 5, 1: 7})
    assert [(e.range.partition, e.range.end) for e in ledger.entries()] == [(0, 5), (1, 7)]


def test_a_topic_made_again_is_not_begun_under_the_heads_of_the_old_one(ledger):
    ledger.begin("g", "intake.a", "id-1", {0: 5}, [])

    with pytest.raises(LedgerConflict, match="made again"):
        ledger.begin("g", "intake.a", "id-2", {1: 5}, [])


@pytest.fixture
def lose_answers(monkeypatch):
    """Let every commit be taken, and its answer be lost."""
    taken = []

    def append_and_lose(table, rows, versions):
        append(table, rows, versions)
        taken.append(versions)
        raise CommitFailedError("the version exists already")

    monkeypatch.setattr(ledger_module, "_append", append_and_lose)
    return taken


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda ledger: ledger.enter([make_entry(0, 10)]), id="enter"),
        pytest.param(lambda ledger: ledger.begin("g", "intake.a", "id-1", {0: 10}, [make_entry(0, 10)]), id="begin"),
        pytest.param(lambda ledger: ledger.begin("g", "intake.a", "id-1", {0: 10}, []), id="begin, skipping nothing"),
        pytest.param(lambda ledger: ledger.rebaseline([move(0, 10)]), id="rebaseline"),
    ],
)
def test_a_commit_whose_answer_was_lost_is_known_again_and_made_once(ledger, lose_answers, write):
    write(ledger)

    assert len(lose_answers) == 1
    assert ledger.heads("g", "intake.a", [0]) == {0: 10}


def test_a_writer_that_loses_every_race_may_try_again(ledger, monkeypatch):
    def lose(*_):
        raise CommitFailedError("someone was first")

    monkeypatch.setattr(ledger_module, "_append", lose)
    monkeypatch.setattr(ledger_module.time, "sleep", lambda _: None)

    with pytest.raises(LedgerBusy, match="20 commits in a row lost a race; run again"):
        ledger.enter([make_entry(0, 10)])


def test_a_store_that_does_not_answer_is_trouble_that_a_retry_may_fix():
    settings = Settings(
        ledger_uri="s3://nowhere/ledger", s3_endpoint="http://127.0.0.1:1", s3_access_key="a", s3_secret_key="b"
    )

    with pytest.raises(StoreUnavailable, match="the ledger"):
        Ledger(settings).heads("g", "intake.a", [0])

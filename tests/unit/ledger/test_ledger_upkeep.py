from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipestream.errors import RequestInvalid, SettingsInvalid
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger
from pipestream.ledger.upkeep import retention_hours, tidy
from pipestream.settings import Settings
from pipestream_testing.made import make_entry, make_plan

DAYS_S = 24 * 3600


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(Settings(ledger_uri=tmp_path.as_uri()))
    for number in range(5):
        offsets = OffsetRange("intake.a", 0, number, number + 1)
        name = f"run-{number}"
        made.write_plan(make_plan(offsets, run_id=name, plan_id=name))
        made.enter([make_entry(number, number + 1, run_id=name, plan_id=name)])
    return made


def data_files(ledger):
    return set(Path(ledger.entries_uri).glob("*.parquet"))


def grow_old(files, days):
    then = time.time() - days * DAYS_S
    for file in files:
        os.utime(file, (then, then))


def test_upkeep_joins_files_and_moves_nothing(ledger):
    entries, plans = ledger.entries(), ledger.plans()

    done = [tidy(name, table) for name, table in ledger.delta_tables().items()]

    assert [(each.table, each.files_joined, each.files_made) for each in done] == [("plans", 5, 1), ("entries", 5, 1)]
    assert ledger.heads("g", "intake.a", [0]) == {0: 5}
    assert (ledger.entries(), ledger.plans()) == (entries, plans)
    assert ledger.find_plan("run-3", "g") == plans[3]


def test_upkeep_writes_a_checkpoint_of_the_version_it_tells(ledger):
    done = tidy("entries", ledger.delta_tables()["entries"])

    log = Path(ledger.entries_uri) / "_delta_log"
    assert (log / f"{done.version:020}.checkpoint.parquet").is_file()
    assert (log / "_last_checkpoint").is_file()
    assert done.version == ledger.delta_tables()["entries"].version()


def test_a_file_that_no_commit_knows_is_deleted_once_it_is_old_and_a_young_one_is_kept(ledger):
    folder = Path(ledger.entries_uri)
    old, young = folder / "part-lost-a-race.parquet", folder / "part-about-to-be-committed.parquet"
    for file in (old, young):
        file.write_bytes(b"rows of a commit")
    grow_old([old], days=8)

    tidy("entries", ledger.delta_tables()["entries"])

    assert not old.exists()
    assert young.exists()


def test_files_that_were_joined_stay_for_readers_under_way(ledger):
    before = data_files(ledger)

    tidy("entries", ledger.delta_tables()["entries"])

    assert before < data_files(ledger)


def test_a_retention_that_is_too_short_is_refused_before_anything_is_done(ledger):
    table = ledger.delta_tables()["entries"]

    with pytest.raises(RequestInvalid, match=r"167 hours is too short.*at least 168"):
        tidy("entries", table, 167)

    assert table.version() == ledger.delta_tables()["entries"].version()


@pytest.mark.parametrize(
    ("own", "asked", "hours"),
    [
        pytest.param("interval 30 days", 168, 720, id="the table keeps longer"),
        pytest.param("interval 1 hour", 200, 200, id="the table keeps shorter"),
        pytest.param("interval 2 weeks", 400, 400, id="the operator keeps longer"),
    ],
)
def test_files_are_kept_as_long_as_the_table_and_the_operator_want(ledger, own, asked, hours):
    table = ledger.delta_tables()["entries"]
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": own})

    assert retention_hours(table, asked) == hours
    assert tidy("entries", table, asked).retention_hours == hours


def test_a_retention_of_the_table_that_cannot_be_read_is_reported(ledger):
    class Table:
        table_uri = "file:///ledger/entries"

        def metadata(self):
            return type("Metadata", (), {"configuration": {"delta.deletedFileRetentionDuration": "for ever"}})

    with pytest.raises(SettingsInvalid, match="'for ever'; expected such as 'interval 30 days'"):
        retention_hours(Table(), 168)

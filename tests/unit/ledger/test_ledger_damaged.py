"""A ledger that Delta cannot read is not tried again: somebody has to look."""

from __future__ import annotations

import json

import pytest

from pipestream.errors import LedgerDamaged
from pipestream.ledger import Ledger
from pipestream.settings import Settings
from pipestream_testing.made import make_entry


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(Settings(ledger_uri=f"file://{tmp_path / 'ledger'}"))
    for start in range(0, 20, 10):
        ledger.enter([make_entry(start, start + 10)])
    return ledger


@pytest.fixture
def table(tmp_path, ledger):
    return tmp_path / "ledger" / "entries"


def commit(table, version):
    return table / "_delta_log" / f"{version:020}.json"


def damage_a_commit(table):
    commit(table, 1).write_text('{"add": garbage')


def lose_a_commit(table):
    commit(table, 1).unlink()


def lose_the_first_commit(table):
    commit(table, 0).unlink()


def name_a_checkpoint_that_is_not_there(table):
    (table / "_delta_log" / "_last_checkpoint").write_text('{"version": 1, "size": 3}')


def ask_for_a_protocol(**protocol):
    def change(table):
        actions = [json.loads(line) for line in commit(table, 0).read_text().splitlines()]
        changed = [{"protocol": protocol} if "protocol" in action else action for action in actions]
        commit(table, 0).write_text("\n".join(map(json.dumps, changed)))

    return change


@pytest.mark.parametrize(
    "damage",
    [
        damage_a_commit,
        lose_a_commit,
        lose_the_first_commit,
        name_a_checkpoint_that_is_not_there,
        ask_for_a_protocol(minReaderVersion=99, minWriterVersion=99),
        ask_for_a_protocol(minReaderVersion=3, minWriterVersion=7, readerFeatures=["new"], writerFeatures=["new"]),
    ],
)
def test_a_table_that_delta_cannot_read_is_refused_once_and_for_all(ledger, table, damage):
    damage(table)

    for call in (
        lambda: ledger.heads("g", "intake.a", [0]),
        ledger.entries,
        lambda: ledger.enter([make_entry(20, 30)]),
    ):
        with pytest.raises(LedgerDamaged) as caught:
            call()
        assert not caught.value.transient
        assert str(table) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"no parquet at all")])
def test_a_file_of_rows_that_is_gone_or_broken_is_refused_once_and_for_all(ledger, table, damage):
    damage(next(table.glob("*.parquet")))

    with pytest.raises(LedgerDamaged, match="restore"):
        ledger.entries()
    assert ledger.heads("g", "intake.a", [0]) == {0: 20}

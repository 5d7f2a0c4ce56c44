from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from pipestream.ledger import Ledger
from pipestream.settings import load_settings
from pipestream_airflow.dag_factory import build_upkeep_dag
from pipestream_airflow.upkeep_operator import ExpireOperator
from pipestream_testing.made import make_entry

TOPIC = "intake.files"


@pytest.fixture
def ledger(tmp_path, monkeypatch) -> Ledger:
    monkeypatch.setenv("PIPESTREAM_LEDGER_URI", (tmp_path / "ledger").as_uri())
    return Ledger(load_settings())


def test_the_ledgers_small_files_are_joined_and_no_head_moves(ledger):
    for start in range(5):
        ledger.enter([make_entry(start, start + 1, topic=TOPIC, lane="sample")])
    task = build_upkeep_dag().get_task("tidy_ledger")

    (done,) = task.execute({})

    assert (done["table"], done["files_joined"], done["files_made"]) == ("entries", 5, 1)
    assert ledger.heads("sample", TOPIC, [0]) == {0: 5}
    assert len(ledger.entries(lane="sample")) == 5


def test_settings_that_cannot_be_used_are_not_tried_again(ledger, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_LEDGER_URI", "ftp://elsewhere/ledger")
    task = build_upkeep_dag().get_task("tidy_ledger")

    with pytest.raises(AirflowFailException, match="ledger_uri"):
        task.execute({})


def test_a_table_that_says_what_cannot_be_read_is_not_tried_again(ledger):
    ledger.enter([make_entry(0, 1, topic=TOPIC, lane="sample")])
    ledger.delta_tables()["entries"].alter.set_table_properties({"delta.deletedFileRetentionDuration": "for ever"})
    task = build_upkeep_dag().get_task("tidy_ledger")

    with pytest.raises(AirflowFailException, match="'for ever'; expected such as"):
        task.execute({})


def test_where_there_is_no_ledger_there_is_nothing_to_do(ledger, tmp_path):
    task = build_upkeep_dag().get_task("tidy_ledger")

    assert task.execute({}) == []
    assert not (tmp_path / "ledger").exists()


def test_a_grace_period_that_is_not_safe_is_not_tried_again():
    task = ExpireOperator(task_id="expire", grace_hours=0.5)

    with pytest.raises(AirflowFailException, match="at least 1:00:00"):
        task.execute({})


@pytest.mark.stack
def test_the_daily_task_says_what_it_looked_at(config_file, monkeypatch):
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))

    done = build_upkeep_dag().get_task("expire_documents").execute({})

    assert (done["objects"], done["deleted"]) == (0, 0)

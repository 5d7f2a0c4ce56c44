from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipestream.kafka.ranges import OffsetRange
from pipestream.ledger import Entry, EntryKind, Ledger
from pipestream.settings import load_settings
from pipestream_airflow.dag_factory import build_upkeep_dag

TOPIC = "intake.files"


@pytest.fixture
def ledger(tmp_path, monkeypatch) -> Ledger:
    monkeypatch.setenv("PIPESTREAM_LEDGER_URI", (tmp_path / "ledger").as_uri())
    return Ledger(load_settings())


def entry(start: int) -> Entry:
    return Entry(
        lane="sample",
        range=OffsetRange(TOPIC, 0, start, start + 1),
        topic_id="topic-1",
        kind=EntryKind.DRAINED,
        run_id="run",
        plan_id="plan",
        graph_id="sample",
        graph_hash="hash",
        holder="test",
        token=1,
        tally=None,
        seconds=0.0,
        entered_at=datetime.now(UTC),
    )


def test_the_ledgers_small_files_are_joined_and_no_head_moves(ledger):
    for start in range(5):
        ledger.enter([entry(start)])
    (task,) = build_upkeep_dag().tasks

    (done,) = task.execute({})

    assert (done["table"], done["files_joined"], done["files_made"]) == ("entries", 5, 1)
    assert ledger.heads("sample", TOPIC, [0]) == {0: 5}
    assert len(ledger.entries(lane="sample")) == 5


def test_where_there_is_no_ledger_there_is_nothing_to_do(ledger, tmp_path):
    (task,) = build_upkeep_dag().tasks

    assert task.execute({}) == []
    assert not (tmp_path / "ledger").exists()

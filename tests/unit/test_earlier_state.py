"""What an earlier version wrote is read by this one: an upgrade needs no migration."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestream.dead_letters.letter import Origin, State, read_letter
from pipestream.drain.crash_markers import CrashMarker, marker_key
from pipestream.drain.range_task import metadata_start, read_metadata
from pipestream.errors import LedgerConflict
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import from_kept, graph_hash, to_binary
from pipestream.kafka.records import InputRecord, OffsetRange
from pipestream.ledger import Ledger
from pipestream.ledger.entries import EntryKind, HeadMove, Tally
from pipestream.ledger.upkeep import tidy
from pipestream.settings import Settings

FOLDER = Path(__file__).resolve().parents[1] / "data" / "earlier_state"
STATE = json.loads((FOLDER / "state.json").read_text())
TOPIC, TOPIC_ID = "intake.sample-files", "3q2-7wAAQACAAAAAAAAAAQ"
TIME = datetime(2026, 11, 1, 8, 0, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    shutil.copytree(FOLDER / "ledger", tmp_path / "ledger")
    return Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))


def test_the_heads_are_where_they_were(ledger):
    assert ledger.heads("sample", TOPIC, [0, 1, 2]) == {0: 120, 1: 60}
    assert ledger.is_same_topic("sample", TOPIC, TOPIC_ID)
    assert not ledger.is_same_topic("sample", TOPIC, "another")


def test_every_kind_of_entry_is_read(ledger):
    assert {(entry.range, entry.kind, _numbers(entry.tally)) for entry in ledger.entries()} == {
        (OffsetRange(TOPIC, 0, 0, 5), EntryKind.SKIPPED, (0, (), 0)),
        (OffsetRange(TOPIC, 0, 5, 100), EntryKind.DRAINED, (95, (("data", 52), ("markup", 40)), 3)),
        (OffsetRange(TOPIC, 1, 0, 80), EntryKind.DRAINED, (80, (("markup", 80),), 0)),
        (OffsetRange(TOPIC, 0, 100, 120), EntryKind.RECOVERED, None),
        (HeadMove(TOPIC, 1, 80, 60), EntryKind.REBASELINED, None),
    }


def _numbers(tally: Tally | None) -> tuple[object, ...] | None:
    return tally and (tally.records, tuple(sorted(tally.documents_out.items())), tally.dead_letters)


def test_a_run_continues_at_the_head_and_a_stale_one_is_refused(ledger):
    last = ledger.entries(lane="sample", topic=TOPIC)[0]

    with pytest.raises(LedgerConflict):
        ledger.enter([replace(last, range=OffsetRange(TOPIC, 0, 100, 130))])
    ledger.enter([replace(last, range=OffsetRange(TOPIC, 0, 120, 130))])

    assert ledger.heads("sample", TOPIC, [0]) == {0: 130}


def test_plans_are_found_by_id_and_listed(ledger):
    plan = ledger.find_plan("run-1/0", "sample")

    assert plan is not None
    assert plan.ranges == (OffsetRange(TOPIC, 0, 5, 100), OffsetRange(TOPIC, 1, 0, 80))
    assert (plan.graph_hash, plan.planned_at, plan.doc_ids) == (STATE["graph"]["hash"], TIME, ())
    assert {each.plan_id: each.doc_ids for each in ledger.plans()} == {"run-1/0": (), "back/0": ("doc-1", "doc-2")}
    assert ledger.plans(lane="sample") == [plan]


def test_the_ledger_can_be_tidied(ledger):
    before = ledger.entries()

    for name, table in ledger.delta_tables().items():
        tidy(name, table)

    assert ledger.entries() == before
    assert ledger.heads("sample", TOPIC, [0, 1]) == {0: 120, 1: 60}


def test_a_graph_has_the_hash_and_the_bytes_that_it_had():
    content = b64decode(STATE["graph"]["content"])
    kept = from_kept(content, source="earlier state")
    checked = check_graph_text(STATE["graph"]["yaml"].encode(), "sample.yaml")

    assert checked.problems == ()
    assert kept == checked.graph
    assert graph_hash(kept) == STATE["graph"]["hash"]
    assert to_binary(kept) == content


def test_the_metadata_of_an_offset_still_tells_the_numbers_of_a_range():
    metadata = STATE["offset_metadata"]

    assert metadata_start(metadata) == 100
    assert read_metadata(metadata, 100) == Tally(20, {"markup": 12, "data": 7}, 1)


def test_the_marker_of_a_crash_is_found_and_read():
    marker = CrashMarker.decode(STATE["crash_marker"]["value"].encode())

    assert marker_key("sample", TOPIC_ID, 0) == STATE["crash_marker"]["key"]
    assert (marker.start, marker.at, dict(marker.deaths)) == (100, 104, {103: 1})
    assert marker.graph_hash == STATE["graph"]["hash"]


def test_a_dead_letter_says_what_it_said():
    kept = STATE["dead_letter"]
    headers = tuple((name, b64decode(value)) for name, value in kept["headers"])
    key, value = b64decode(kept["key"]), b64decode(kept["value"])

    letter = read_letter(InputRecord(kept["topic"], 0, 17, int(TIME.timestamp() * 1000), key, value, headers))

    assert (letter.doc_id, letter.node_id, letter.state) == ("doc-1", "enrich", State.OPEN)
    assert (letter.error_kind, letter.message, letter.attempts) == ("ModuleFailed", "it broke", 3)
    assert letter.origin == Origin("pipestream.main.enrich", 1, 5)
    assert (letter.run_id, letter.graph_id, letter.graph_hash) == ("run-1", "sample", STATE["graph"]["hash"])
    assert letter.failed_at == letter.first_failed_at == TIME

"""Topics that lost records, or were made again, do not prove that an hour is complete."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import EntryKind
from pipestream.settings import Settings
from pipestream.views import hours
from pipestream.views.hour_proof import PartitionState, Stage

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def entry(end: int, minute: int, *, topic_id: str = "new", kind: EntryKind = EntryKind.DRAINED) -> SimpleNamespace:
    return SimpleNamespace(
        range=SimpleNamespace(topic="in", partition=0, end=end),
        topic_id=topic_id,
        kind=kind,
        entered_at=NOON.replace(minute=minute),
    )


@pytest.fixture
def snapshot(monkeypatch):
    """Makes a snapshot of a ledger and a topic with one partition, which ends at 30 and holds offsets from 20 on."""

    def make(
        head: int | None, *entries: SimpleNamespace, is_same: bool = True, is_empty: bool = False
    ) -> hours._Snapshot:
        held = [] if is_empty else [OffsetRange("in", 0, 20, 30)]
        broker = SimpleNamespace(
            existing=lambda: {"in": 1},
            identify=lambda _: SimpleNamespace(topic_id="new"),
            offsets_over_time=lambda *_: [{}],
            written_ends=lambda _, partitions: dict.fromkeys(partitions, 30),
        )
        ledger = SimpleNamespace(
            is_same_topic=lambda *_: is_same,
            heads_of=lambda places: {place: head for place in places if head is not None},
            entries=lambda **_: list(entries),
        )
        monkeypatch.setattr(hours, "Broker", lambda _: broker)
        monkeypatch.setattr(hours, "Ledger", lambda _: ledger)
        monkeypatch.setattr(hours, "find_held", lambda *_: held)
        return hours._Snapshot(Settings(), "graph", [Stage(("in",), ())], NOON)

    return make


def test_a_head_is_where_the_ledger_says_and_without_one_where_the_partition_begins(snapshot):
    assert snapshot(25).look("in", NOON)[0].head == 25
    assert snapshot(None).look("in", NOON)[0].head == 20


def test_records_that_retention_deleted_before_they_were_drained_are_not_passed(snapshot):
    assert snapshot(10).look("in", NOON)[0].head == 10


@pytest.mark.parametrize("head", [10, 30])
def test_a_partition_that_holds_nothing_now_has_to_be_drained_to_its_end_too(snapshot, head):
    assert snapshot(head, is_empty=True).look("in", NOON) == {0: PartitionState(head, 30, None)}


def test_a_partition_that_never_held_anything_is_not_looked_at(snapshot):
    assert snapshot(None, is_empty=True).look("in", NOON) == {}


def test_a_head_of_a_topic_that_was_made_again_does_not_count(snapshot):
    assert snapshot(1_000, is_same=False).look("in", NOON)[0].head == 20


def test_a_place_was_passed_when_the_topic_of_now_was_drained_last(snapshot):
    drained = entry(30, 1)

    assert snapshot(30, drained).recorded == {("in", 0): [(30, NOON.replace(minute=1))]}
    assert snapshot(30, entry(900, 0, topic_id="old"), drained).recorded == {("in", 0): [(30, NOON.replace(minute=1))]}
    moved_back = snapshot(30, drained, entry(20, 2, kind=EntryKind.REBASELINED), entry(30, 3))
    assert moved_back.recorded == {("in", 0): [(20, NOON.replace(minute=2)), (30, NOON.replace(minute=3))]}

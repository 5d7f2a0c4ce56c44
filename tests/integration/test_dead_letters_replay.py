from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer

from pipestream import faults
from pipestream.dead_letters import (
    Act,
    ActionConflict,
    ActionRequest,
    LetterId,
    LetterMissing,
    Selection,
    State,
    dead_letter_topics,
    find_dead_letter,
    preview_action,
    resume_action,
)
from pipestream.dead_letters.decisions import DECISIONS_TOPIC, Batch, Decisions, PlannedRange, PlannedTwice
from pipestream.dead_letters.log import DecisionLog
from pipestream.dead_letters.perform import make_plan
from pipestream.errors import TopicMissing
from pipestream.kafka.clients import transactional_producer
from pipestream.kafka.connection import client_config
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream_testing.letters import FAILING, PASSING

pytestmark = pytest.mark.stack


@pytest.fixture
def letters(make_letters):
    return make_letters(chunk_records=10)


def test_a_document_that_failed_reaches_the_happy_end_once_after_the_fix_and_a_replay(letters):
    letters.fail("good", "bad-1", "bad-2")
    assert letters.open_ids() == ["bad-1", "bad-2"]
    letters.fix()

    report = letters.act(Act.REPLAY, "r1")
    letters.drain(letters.second)

    assert (report.status, report.decided, report.sent) == ("done", {State.REPLAYED: 2}, {letters.second: 2})
    assert letters.pipeline.doc_ids(letters.happy_end) == {"good": 1, "bad-1": 1, "bad-2": 1}
    assert letters.open_ids() == []
    assert [letter.state for letter in letters.listed(states=State)] == [State.REPLAYED] * 2
    letters.pipeline.check_ledger_tiles(letters.second)


def test_a_replayed_record_is_the_one_that_failed_with_its_key_bytes_and_headers(letters):
    letters.fail("bad")
    (original,) = letters.pipeline.read(letters.second)

    letters.act(Act.REPLAY, "r1")

    (_, again) = letters.pipeline.read(letters.second)
    assert (again.record.key, again.record.value) == (original.record.key, original.record.value)
    own = [each for each in again.record.headers if not each[0].startswith("pipestream.dead.")]
    assert tuple(own) == original.record.headers


def test_a_finished_replay_does_nothing_when_repeated_and_says_so(letters):
    letters.fail("bad-1")
    letters.act(Act.REPLAY, "r1")

    again = letters.act(Act.REPLAY, "r1")
    under_another_id = letters.act(Act.REPLAY, "r2")

    assert (again.status, again.decided, again.decided_now) == ("done before", {State.REPLAYED: 1}, 0)
    assert (under_another_id.status, under_another_id.decided) == ("done", {})
    assert letters.replayed() == ["bad-1"]


def test_letters_that_died_after_the_plan_are_left_for_the_next_replay(letters):
    letters.fail("bad-1")
    letters.act(Act.REPLAY, "r1")
    letters.drain(letters.second)

    again = letters.act(Act.REPLAY, "r1")

    assert again.status == "done before"
    (still_dead,) = letters.listed()
    assert (still_dead.doc_id, still_dead.replays) == ("bad-1", 1)
    (first,) = letters.listed(states=[State.REPLAYED])
    assert still_dead.first_failed_at == first.failed_at < still_dead.failed_at


def test_a_letter_is_quarantined_at_the_cap_and_replayed_once_more_when_released(letters):
    letters.fail("bad")
    for attempt in range(2):
        letters.act(Act.REPLAY, f"r{attempt}", max_replays=2)
        letters.drain(letters.second)

    report = letters.act(Act.REPLAY, "r2", max_replays=2)

    assert (report.decided, report.sent) == ({State.QUARANTINED: 1}, {})
    assert letters.open_ids() == []
    (quarantined,) = letters.listed(states=[State.QUARANTINED])
    assert (quarantined.replays, quarantined.is_quarantined) == (2, True)
    assert letters.act(Act.REPLAY, "r3", max_replays=9).decided == {}

    letters.act(Act.RELEASE, "released")
    assert letters.open_ids() == ["bad"]
    assert letters.act(Act.REPLAY, "r4", max_replays=2).decided == {State.REPLAYED: 1}
    assert letters.replayed() == ["bad"] * 3


def test_purged_letters_are_out_of_sight_but_still_there(letters):
    letters.fail("bad-1", "bad-2")

    letters.act(Act.PURGE, "p1", selection=Selection(doc_ids=("bad-1",)))

    assert letters.open_ids() == ["bad-2"]
    (purged,) = letters.listed(states=[State.PURGED])
    assert find_dead_letter(letters.settings, purged.letter_id).decision.action_id == f"{letters.unique}-p1"
    letters.act(Act.REPLAY, "r1")
    assert letters.replayed() == ["bad-2"]


def test_only_the_selected_letters_are_replayed_and_the_others_stay_open(letters):
    letters.fail("bad-1", "bad-2", "bad-3")
    first = next(letter for letter in letters.listed() if letter.doc_id == "bad-1")

    letters.act(Act.REPLAY, "by-doc", selection=Selection(doc_ids=("bad-2",)))
    assert letters.open_ids() == ["bad-1", "bad-3"]
    letters.act(Act.REPLAY, "by-node", selection=Selection(nodes=("first",)))
    letters.act(Act.REPLAY, "by-error", selection=Selection(errors=("Document*",)))
    letters.act(Act.REPLAY, "by-time", selection=Selection(since=datetime.now(UTC) + timedelta(hours=1)))
    assert letters.open_ids() == ["bad-1", "bad-3"]
    letters.act(Act.REPLAY, "by-name", selection=Selection(letters=(first.letter_id,)))

    assert letters.open_ids() == ["bad-3"]
    assert letters.replayed() == ["bad-1", "bad-2"]
    assert letters.open_ids(Selection(errors=("Module*",), nodes=("second",))) == ["bad-3"]


def test_a_limit_takes_the_oldest_letters_and_holds_over_all_tries(letters):
    letters.fail(*(f"bad-{number:02}" for number in range(25)))
    oldest = [letter.doc_id for letter in letters.listed()][:13]

    report = letters.act(Act.REPLAY, "r1", limit=13)
    again = letters.act(Act.REPLAY, "r1", limit=13)

    assert (report.decided, again.status) == ({State.REPLAYED: 13}, "done before")
    assert letters.replayed() == sorted(oldest)
    assert len(letters.listed(limit=5)) == 5


def test_a_dry_run_counts_and_changes_nothing(letters):
    letters.fail("bad-1", "bad-2")
    request = ActionRequest(Act.REPLAY, f"{letters.unique}-r1", (letters.dead,), max_replays=3)

    preview = preview_action(request, letters.settings, [letters.pipeline.graph])

    assert preview.decided == {State.REPLAYED: 2}
    assert preview.sent == {letters.second: 2}
    assert (preview.histogram.by_error, preview.histogram.by_node) == ({"ModuleFailed": 2}, {"second": 2})
    assert preview.histogram.by_day.total() == 2
    assert letters.open_ids() == ["bad-1", "bad-2"]
    assert letters.replayed() == []
    with pytest.raises(ActionConflict, match="no action on dead letters has the id"):
        resume_action(request.action_id, letters.settings)


def test_records_of_other_tools_are_listed_and_replayed_byte_for_byte(letters):
    dead = f"dlq.intake.{letters.unique}"
    producer = Producer(client_config(letters.settings))
    headers = [("__connect.errors.exception.class.name", b"DataException"), ("trace", b"\xff\x00")]
    producer.produce(dead, value=b"\xff not a stream", key=b"order-7", headers=headers)
    producer.produce(dead, value=None)
    assert producer.flush(120) == 0

    found = letters.listed(topic=dead)
    assert [(letter.doc_id, letter.error_kind) for letter in found] == [("order-7", "DataException"), ("", "")]
    letters.act(Act.REPLAY, "r1", topics=[dead])

    (first, second) = sorted(letters.pipeline.read(letters.intake), key=lambda each: each.record.value is None)
    assert (first.record.key, first.record.value) == (b"order-7", b"\xff not a stream")
    assert first.record.headers[0] == ("trace", b"\xff\x00")
    assert second.record.value is None


def test_a_letter_that_failed_behind_a_fused_edge_is_replayed_at_that_node_alone(letters):
    fused = f"  - id: fused\n    module: {PASSING}"
    mended = letters.pipeline
    letters.pipeline = letters.with_graph(
        "broken-behind-a-fused-edge", (fused, "  - id: fused\n    module: python:pipestream_testing.modules:raising")
    )
    letters.pipeline.send(letters.intake, ["fused-1"])
    letters.drain(letters.intake)
    dead = f"dlq.{letters.unique}.fused"

    report = letters.act(Act.REPLAY, "r1", topics=[dead])

    replayed_to = f"pipestream.{letters.unique}.fused"
    assert report.sent == {replayed_to: 1}
    letters.pipeline = mended
    letters.drain(replayed_to)
    (arrived,) = letters.pipeline.read(f"pipestream.{letters.unique}.happy-end")
    assert (arrived.doc_id, list(arrived.stream.processing_path)) == ("fused-1", ["first", "fused"])


def test_an_id_cannot_be_used_again_for_something_else(letters):
    letters.fail("bad-1")
    letters.act(Act.QUARANTINE, "a1")

    with pytest.raises(ActionConflict, match=r"was planned at .* as another quarantine"):
        letters.act(Act.PURGE, "a1")
    with pytest.raises(ActionConflict, match="dlq resume"):
        letters.act(Act.QUARANTINE, "a1", selection=Selection(nodes=("second",)))


def test_of_two_plans_under_one_id_the_first_counts_and_the_second_process_sends_nothing(letters, monkeypatch):
    letters.fail("bad-1")
    request = ActionRequest(Act.REPLAY, f"{letters.unique}-r1", (letters.dead,), by="first")
    log = DecisionLog(letters.settings)
    log.ensure()
    log.write_plan(make_plan(request, letters.settings))
    # The second process looked before the first one wrote.
    monkeypatch.setattr(DecisionLog, "read", lambda _self: Decisions())

    with pytest.raises(PlannedTwice, match="run it again to resume that plan"):
        letters.act(Act.REPLAY, "r1")

    monkeypatch.undo()
    assert letters.replayed() == []
    assert letters.act(Act.REPLAY, "r1").decided == {State.REPLAYED: 1}
    assert log.read().plans[request.action_id].by == "first"


def test_a_topic_made_again_under_its_name_has_letters_of_its_own(letters):
    letters.fail("bad-1")
    request = ActionRequest(Act.PURGE, f"{letters.unique}-later", (letters.dead,))
    log = DecisionLog(letters.settings)
    log.ensure()
    identity = TopicAdmin(letters.settings).identify(letters.dead).topic_id
    log.write_plan(request.plan([PlannedRange(letters.dead, identity, 0, 0, 1)]))
    letters.act(Act.PURGE, "p1")
    admin = TopicAdmin(letters.settings)
    admin.delete([letters.dead])
    admin.create([s for s in required_topics(letters.pipeline.graph, letters.settings) if s.name == letters.dead])
    letters.fail("bad-2")

    assert letters.open_ids() == ["bad-2"]
    with pytest.raises(ActionConflict, match="was deleted and created again"):
        resume_action(request.action_id, letters.settings)


def test_an_action_waits_for_decisions_that_anothers_open_transaction_holds_back(letters, monkeypatch):
    letters.fail("bad-1")
    log = DecisionLog(letters.settings)
    log.ensure()
    other = transactional_producer(letters.settings, f"other-{letters.unique}")
    other.init_transactions(120)
    other.begin_transaction()
    batch = Batch("other", "dlq.other", "other-id", 0, 1, {State.PURGED: (0,)}, datetime.now(UTC))
    other.produce(DECISIONS_TOPIC, batch.encode())
    assert other.flush(120) == 0
    is_planned = threading.Event()
    monkeypatch.setattr(faults, "reach", lambda point: is_planned.set() if point == faults.PLAN_WRITTEN else None)
    reports = []
    thread = threading.Thread(target=lambda: reports.append(letters.act(Act.REPLAY, "r1")))
    thread.start()
    try:
        assert is_planned.wait(120)
        assert f"{letters.unique}-r1" not in log.read().plans  # it is there, behind the open transaction
        assert letters.replayed() == []
    finally:
        other.commit_transaction(120)
        thread.join(300)  # a replay that was killed elsewhere holds the decisions back for up to 90 s
        other.close()

    assert [report.decided for report in reports] == [{State.REPLAYED: 1}]
    assert letters.replayed() == ["bad-1"]


def test_the_dead_letter_topics_of_a_graph_are_known(letters):
    assert dead_letter_topics([letters.pipeline.graph], letters.settings) == [
        f"dlq.intake.{letters.unique}",
        *(f"dlq.{letters.unique}.{node}" for node in ("first", "fused", "second")),
    ]


def test_a_letter_or_a_topic_that_is_not_there_is_named(letters):
    letters.fail("bad-1")

    for missing in (LetterId(letters.dead, 0, 1), LetterId(letters.dead, 0, 99), LetterId(letters.dead, 7, 0)):
        with pytest.raises(LetterMissing, match=f"there is no dead letter {missing}"):
            find_dead_letter(letters.settings, missing)  # offset 1 is the transaction's marker
    with pytest.raises(TopicMissing, match=r"dlq\.no\.where does not exist"):
        letters.listed(topic="dlq.no.where")


def test_a_letter_of_an_entry_node_with_a_topic_of_its_own_is_found_there_and_replayed(letters):
    own = f"letters-of-{letters.unique}"
    entry = f"id: first\n    module: {PASSING}"
    failing = f"id: first\n    module: {FAILING}\n    dead_letters: {{topic: {own}}}"
    letters.pipeline = letters.with_graph("own", (entry, failing))
    letters.pipeline.create_topics()
    letters.pipeline.send(letters.intake, ["bad-1", "good"])
    letters.drain(letters.intake)
    assert own in dead_letter_topics([letters.pipeline.graph], letters.settings)
    assert [letter.doc_id for letter in letters.listed(topic=own)] == ["bad-1"]
    assert letters.listed(topic=f"dlq.{letters.intake}") == []

    letters.fix()
    report = letters.act(Act.REPLAY, "r1", topics=[own])
    letters.drain(letters.intake, letters.second)

    assert report.sent == {letters.intake: 1}
    assert letters.pipeline.doc_ids(letters.happy_end) == {"good": 1, "bad-1": 1}

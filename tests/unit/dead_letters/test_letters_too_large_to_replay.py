"""A letter whose record its topic does not take any more stays open, and those behind it are replayed."""

from __future__ import annotations

import pytest

from pipestream.dead_letters import Act, ActionRequest, State, run_action
from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.errors import RecordTooLarge
from pipestream.settings import Settings
from pipestream_testing.broker import ModelBroker
from pipestream_testing.model_drain import (
    DEAD,
    GRAPH,
    OUT,
    TOPIC,
    drain_without_ledger,
    make_document,
    use_broker,
)

LARGE = "large" * 1_000


@pytest.fixture
def settings(tmp_path):
    return Settings(store_uri=f"file://{tmp_path}", chunk_records=10, failing_share=1.0)


@pytest.fixture
def broker(settings):
    """The model with a letter of each of four documents, of which two are large. All heal when they are replayed."""
    broker = ModelBroker()
    for topic in (TOPIC, DEAD, OUT):
        broker.create(topic, 1)
    use_broker(broker)
    for doc_id in ("a", f"{LARGE}-1", "b", f"{LARGE}-2"):
        broker.append(make_document(doc_id, heals_after=1), 0)
    drain_without_ledger(broker, settings, run_id="live-1", budget=100)
    assert len(broker.all_records(DEAD)) == 4
    return broker


@pytest.fixture
def replay(broker, settings):
    def replay(action_id, **options):
        return run_action(ActionRequest(Act.REPLAY, action_id, (DEAD,), **options), settings, [GRAPH], broker=broker)

    return replay


def sent_back(broker):
    return [record.key.decode() for record in broker.all_records(TOPIC)[4:]]


def test_letters_that_do_not_fit_stay_open_with_the_reason_and_the_others_are_replayed(broker, replay):
    broker.most_bytes[TOPIC] = 2_000

    report = replay("r1")

    assert (report.status, report.decided, report.sent) == ("done", {State.REPLAYED: 2}, {TOPIC: 2})
    ((reason, count),) = report.left_open.items()
    assert count == 2
    assert "too large for intake.a, which takes up to 2000 bytes" in reason
    assert sent_back(broker) == ["a", "b"]


def test_a_letter_that_did_not_fit_is_replayed_by_another_action_once_its_topic_takes_it(broker, replay):
    broker.most_bytes[TOPIC] = 2_000
    replay("r1")
    assert replay("r1").status == "done before"
    del broker.most_bytes[TOPIC]

    report = replay("r2")

    assert (report.decided, report.left_open) == ({State.REPLAYED: 2}, {})
    assert sent_back(broker) == ["a", "b", f"{LARGE}-1", f"{LARGE}-2"]


def test_a_letter_that_does_not_fit_does_not_count_for_the_limit_of_an_action(broker, replay):
    broker.most_bytes[TOPIC] = 2_000

    report = replay("r1", limit=2)

    assert report.decided == {State.REPLAYED: 2}
    assert sent_back(broker) == ["a", "b"]


def test_a_replay_of_which_nothing_fits_ends(broker, replay):
    broker.most_bytes[TOPIC] = 1

    report = replay("r1")

    assert (report.status, report.decided) == ("done", {})
    assert sum(report.left_open.values()) == 4


def test_decisions_that_their_own_topic_does_not_take_stop_the_action(broker, replay):
    broker.create(DECISIONS_TOPIC, 1)
    broker.most_bytes[DECISIONS_TOPIC] = 1

    with pytest.raises(RecordTooLarge, match=DECISIONS_TOPIC):
        replay("r1")
    assert sent_back(broker) == []

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from threading import Event

import pytest

from pipestream.accepted import AcceptedSlot, Submission, accepted_topic, content_digest
from pipestream.accepted.queue import Pending
from pipestream.accepted.transactions import Transactions, transactional_ids
from pipestream.errors import (
    AcceptedLogInvalid,
    BrokerUnavailable,
    KeyReused,
    ProducerFenced,
    RecordTooLarge,
    SlotFull,
    SlotStopped,
    TopicMissing,
)
from pipestream.kafka.records import OutputRecord
from pipestream.kafka.writer import TransactionalWriter
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.accepted import read_values

pytestmark = pytest.mark.stack

TIMEOUT_S = 120


@pytest.fixture
def engine_settings(settings, unique):
    return settings.model_copy(update={"engine_name": unique, "engine_window_s": 900.0})


@pytest.fixture
def topic(engine_settings, unique):
    name = f"{unique}-out"
    TopicAdmin(engine_settings).create([TopicSpec(name, 2, None, Purpose.OVERRIDE)])
    return name


@pytest.fixture
def start_slot(engine_settings):
    started = []

    def start(slot=0, slots=1, **changes):
        made = AcceptedSlot(engine_settings.model_copy(update=changes), slot, slots)
        made.start()
        started.append(made)
        return made

    yield start
    for each in started:
        each.close()


def submission(topic, key, value=b"", answer=b""):
    value = value or key.encode()
    return Submission(
        [OutputRecord(topic, key.encode(), value)], answer or f"answer {key}".encode(), key, content_digest(value)
    )


def test_calls_are_answered_once_their_outputs_are_committed(start_slot, engine_settings, topic):
    slot = start_slot()
    with ThreadPoolExecutor(8) as threads:
        futures = list(threads.map(lambda n: slot.submit(submission(topic, f"k{n}")), range(200)))
    assert [each.result(TIMEOUT_S) for each in futures] == [f"answer k{n}".encode() for n in range(200)]
    assert read_values(engine_settings, topic) == Counter(f"k{n}".encode() for n in range(200))


def test_a_repeated_key_gets_the_first_answer_and_writes_nothing(start_slot, engine_settings, topic):
    slot = start_slot()
    slot.submit(submission(topic, "a", answer=b"first")).result(TIMEOUT_S)
    assert slot.submit(submission(topic, "a", answer=b"second")).result(TIMEOUT_S) == b"first"
    assert slot.find("a", content_digest(b"a")) == b"first"
    assert slot.find("b", content_digest(b"b")) is None
    assert read_values(engine_settings, topic) == Counter([b"a"])


def test_the_same_key_with_other_content_is_refused_also_after_a_restart(start_slot, engine_settings, topic):
    slot = start_slot()
    slot.submit(submission(topic, "a")).result(TIMEOUT_S)
    with pytest.raises(KeyReused):
        slot.submit(submission(topic, "a", b"other"))
    slot.close()
    slot = start_slot()
    with pytest.raises(KeyReused):
        slot.submit(submission(topic, "a", b"other"))
    with pytest.raises(KeyReused):
        slot.find("a", content_digest(b"other"))


def test_a_repeat_after_a_restart_is_answered_as_the_first_was(start_slot, engine_settings, topic):
    slot = start_slot()
    for number in range(50):
        slot.submit(submission(topic, f"k{number}", answer=b"first")).result(TIMEOUT_S)
    slot.close()
    slot = start_slot()
    answers = [slot.submit(submission(topic, f"k{n}", answer=b"second")).result(TIMEOUT_S) for n in range(50)]
    assert answers == [b"first"] * 50
    assert read_values(engine_settings, topic) == Counter(f"k{n}".encode() for n in range(50))


def test_a_slot_that_starts_fences_its_predecessor_under_every_id(start_slot, engine_settings, topic):
    log = accepted_topic(engine_settings.engine_name)
    ids = transactional_ids(log, 0)
    assert len(ids) == len(set(ids)) > 1, "two transactions in a row have different ids"
    writers = [TransactionalWriter(engine_settings, [each], log) for each in ids]
    start_slot()
    for writer in writers:
        with pytest.raises(ProducerFenced):
            writer.commit([OutputRecord(topic, None, b"late")])
        writer.close()
    assert not read_values(engine_settings, topic)


def test_a_call_without_a_key_is_accepted_every_time(start_slot, engine_settings, topic):
    slot = start_slot()
    for _ in range(3):
        slot.submit(Submission([OutputRecord(topic, None, b"same")], b"ok")).result(TIMEOUT_S)
    assert read_values(engine_settings, topic) == Counter({b"same": 3})


def test_one_output_that_is_too_large_fails_alone(start_slot, engine_settings, topic):
    slot = start_slot()
    large = bytes(i * 37 % 251 for i in range(1_000)) * 3_000
    TopicAdmin(engine_settings).set_max_message_bytes({topic: 10_000})
    calls = [submission(topic, f"k{n}") for n in range(20)]
    calls.insert(10, submission(topic, "large", large))
    futures = [slot.submit(call) for call in calls]
    with pytest.raises(RecordTooLarge):
        futures.pop(10).result(TIMEOUT_S)
    assert len({each.result(TIMEOUT_S) for each in futures}) == 20
    assert read_values(engine_settings, topic) == Counter(f"k{n}".encode() for n in range(20))


def test_the_index_of_a_refused_output_is_its_place_among_the_outputs_of_its_own_call(engine_settings, topic):
    TopicAdmin(engine_settings).set_max_message_bytes({topic: 10_000})
    large = bytes(i * 37 % 251 for i in range(1_000)) * 3_000
    outputs = [OutputRecord(topic, None, value) for value in (b"small", large)]
    calls = [Pending(submission(topic, f"k{n}"), bytes([n]) * 16, Future()) for n in range(3)]
    calls.append(Pending(Submission(outputs, b"ok", "large"), bytes([9]) * 16, Future()))
    transactions = Transactions(engine_settings, accepted_topic(engine_settings.engine_name), 0, 1)
    with closing(transactions):
        transactions.prepare()
        call, error = transactions.commit(calls, [], 0)
    assert call is calls[3]
    assert error.index == 1


def test_a_waiting_call_that_another_process_accepted_meanwhile_is_not_accepted_again(
    start_slot, engine_settings, topic, monkeypatch
):
    """The broker was away, the other process had the slot for a moment, and this one takes it back."""
    slot, is_in_commit, go_on = start_slot(), Event(), Event()
    commit = slot._transactions.commit

    def lose_the_broker_once(*args):
        monkeypatch.setattr(slot._transactions, "commit", commit)
        is_in_commit.set()
        go_on.wait(TIMEOUT_S)
        raise BrokerUnavailable("the broker went away")

    monkeypatch.setattr(slot._transactions, "commit", lose_the_broker_once)
    first = slot.submit(submission(topic, "a"))
    assert is_in_commit.wait(TIMEOUT_S)
    waiting, reused = slot.submit(submission(topic, "b", answer=b"here")), slot.submit(submission(topic, "c", b"here"))
    other = start_slot()
    other.submit(submission(topic, "b", answer=b"there")).result(TIMEOUT_S)
    other.submit(submission(topic, "c", b"there")).result(TIMEOUT_S)
    other.close()
    go_on.set()
    assert first.result(TIMEOUT_S) == b"answer a"
    assert waiting.result(TIMEOUT_S) == b"there"
    with pytest.raises(KeyReused):
        reused.result(TIMEOUT_S)
    assert read_values(engine_settings, topic) == Counter([b"a", b"b", b"there"])


def test_a_call_to_a_missing_topic_fails_alone(start_slot, engine_settings, topic, unique):
    slot = start_slot()
    lost = slot.submit(submission(f"{unique}-nowhere", "lost"))
    kept = slot.submit(submission(topic, "kept"))
    with pytest.raises(TopicMissing):
        lost.result(TIMEOUT_S)
    assert kept.result(TIMEOUT_S) == b"answer kept"


def test_a_slot_that_another_process_took_over_fails_its_calls_and_stops(start_slot, engine_settings, topic):
    first = start_slot()
    first.submit(submission(topic, "a")).result(TIMEOUT_S)
    second = start_slot()
    with pytest.raises(SlotStopped, match="taken it over"):
        first.submit(submission(topic, "b")).result(TIMEOUT_S)
    assert first.stopped.wait(TIMEOUT_S)
    with pytest.raises(SlotStopped):
        first.submit(submission(topic, "c"))
    assert second.submit(submission(topic, "a", answer=b"other")).result(TIMEOUT_S) == b"answer a"
    assert second.submit(submission(topic, "b")).result(TIMEOUT_S) == b"answer b"
    assert read_values(engine_settings, topic) == Counter([b"a", b"b"])


def test_closing_finishes_what_was_taken(start_slot, engine_settings, topic):
    slot = start_slot()
    futures = [slot.submit(submission(topic, f"k{n}")) for n in range(3_000)]
    slot.close(TIMEOUT_S)
    assert all(each.done() and each.exception() is None for each in futures)
    assert read_values(engine_settings, topic).total() == 3_000
    with pytest.raises(SlotStopped, match="closed"):
        slot.submit(submission(topic, "late"))


def test_more_than_the_queue_holds_is_refused_and_nothing_that_was_taken_is_lost(start_slot, engine_settings, topic):
    slot = start_slot(engine_waiting=10)
    taken, refused = [], 0
    for number in range(500):
        try:
            taken.append(slot.submit(submission(topic, f"k{number}")))
        except SlotFull:
            refused += 1
    assert refused
    for each in taken:
        each.result(TIMEOUT_S)
    assert read_values(engine_settings, topic).total() == len(taken)


def test_coroutines_wait_for_their_calls(start_slot, engine_settings, topic):
    slot = start_slot()

    async def call_all():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(slot.submit_from(loop, submission(topic, f"k{n}")) for n in range(100)))

    assert asyncio.run(call_all()) == [f"answer k{n}".encode() for n in range(100)]


def test_another_number_of_slots_is_refused_with_what_to_do(start_slot, engine_settings):
    start_slot(0, 2)
    with pytest.raises(AcceptedLogInvalid, match="set engine_slots to 2"):
        AcceptedSlot(engine_settings, 0, 3).start()


def test_a_log_that_is_kept_for_less_than_the_window_is_refused(start_slot, engine_settings):
    start_slot()
    longer = engine_settings.model_copy(update={"engine_window_s": 1_800.0})
    with pytest.raises(AcceptedLogInvalid, match="keeps keys for 900 s"):
        AcceptedSlot(longer, 0, 1).start()


def test_a_record_of_another_format_keeps_a_slot_from_starting(start_slot, engine_settings, topic):
    """It may hold keys, so a slot that skipped it could accept a repeat."""
    start_slot().close()
    TopicAdmin(engine_settings).write(accepted_topic(engine_settings.engine_name), b"", b"\x09 of the future")
    with pytest.raises(AcceptedLogInvalid, match="newer version"):
        AcceptedSlot(engine_settings, 0, 1).start()

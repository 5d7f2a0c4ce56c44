from __future__ import annotations

import asyncio
import tracemalloc
from concurrent.futures import Future

import pytest

from pipestream.accepted import Submission, content_digest, slot_of
from pipestream.accepted.queue import Pending, Queue, resolve
from pipestream.accepted.record import Accepted, decode_accepted, encode_accepted
from pipestream.accepted.submission import key_digest
from pipestream.accepted.window import Window
from pipestream.errors import AcceptedLogInvalid, KeyReused, RequestInvalid, SlotFull
from pipestream.kafka.records import OutputRecord

CONTENT = content_digest(b"content")


def accepted(key, time_ms=0, answer=b"yes"):
    return Accepted(key_digest(key), CONTENT, answer, True, time_ms)


def pending(key, size=0, content=CONTENT):
    submission = Submission([OutputRecord("t", None, bytes(size))], b"yes", key, content)
    return Pending(submission, key_digest(key), Future())


def test_a_record_gives_back_the_keys_that_were_put_in():
    calls = [accepted("a", 7), Accepted(bytes(16), bytes(16), b"", False, 7), accepted("c", 7, b"x" * 4_096)]
    (value,) = encode_accepted(calls, 7)
    assert list(decode_accepted(value, "here")) == calls


def test_many_large_answers_take_several_records():
    calls = [accepted(str(number), 7, b"x" * 4_096) for number in range(200)]
    values = encode_accepted(calls, 7)
    assert len(values) > 1
    assert max(map(len, values)) < 300_000
    assert [each for value in values for each in decode_accepted(value, "here")] == calls


@pytest.mark.parametrize(
    "value", [b"", b"\x02" + bytes(8), b"hello, world", encode_accepted([accepted("a")], 0)[0][:-1]]
)
def test_a_record_that_cannot_be_read_is_refused_with_its_place(value):
    with pytest.raises(AcceptedLogInvalid, match=r"engine.accepted\[3\] at 9"):
        decode_accepted(value, "engine.accepted[3] at 9")


def test_the_window_keeps_the_first_answer_of_a_key():
    window = Window(60, 1_000)
    window.remember(accepted("a", 1, b"first"))
    window.remember(accepted("a", 2, b"second"))
    assert window.find(key_digest("a"), 3) == (CONTENT, b"first")


def test_the_window_forgets_what_is_too_old():
    window = Window(60, 1_000)
    window.remember(accepted("a", 0))
    window.remember(accepted("b", 30_000))
    assert window.find(key_digest("a"), 60_001) is None
    window.expire(60_001)
    assert len(window) == 1
    assert window.find(key_digest("b"), 60_001) == (CONTENT, b"yes")


def test_the_window_forgets_the_oldest_keys_when_there_are_too_many(caplog):
    window = Window(60, 2)
    for at, key in enumerate("abc"):
        window.remember(accepted(key, at))
    assert window.find(key_digest("a"), 3) is None
    assert window.find(key_digest("c"), 3) is not None
    assert "raise engine_window_keys" in caplog.text


def test_a_key_takes_at_most_300_bytes_of_memory():
    """The description of ``engine_window_keys`` counts on it."""
    calls = [accepted(str(number), number, b"a" * 60) for number in range(20_000)]
    tracemalloc.start()
    window = Window(900, 1_000_000)
    for call in calls:
        # The log is read in records of many keys, so the digests are objects of their own.
        window.remember(Accepted(bytes(bytearray(call.digest)), call.content, call.answer, True, call.time_ms))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(calls) < 300


def test_the_slot_of_a_key_never_changes():
    """Another value would look for keys in the wrong partition, and accept repeats."""
    assert [slot_of(key, 1_000) for key in ("", "a", "key-1", "schlüssel")] == [96, 7, 416, 283]


def test_keys_are_spread_over_all_slots():
    counts = [0] * 4
    for number in range(4_000):
        counts[slot_of(f"key-{number}", 4)] += 1
    assert min(counts) > 800


def test_a_submission_refuses_what_the_log_cannot_keep():
    with pytest.raises(RequestInvalid, match="4097 bytes"):
        Submission([], bytes(4_097))
    with pytest.raises(RequestInvalid, match="16 bytes, not 3"):
        Submission([], b"", "a", b"abc")
    with pytest.raises(RequestInvalid, match="at most 1024"):
        key_digest("k" * 1_025)


def test_the_queue_is_bounded_by_number_and_bytes():
    queue = Queue(0, most=2, most_bytes=1_000)
    queue.add(pending("a", 400))
    with pytest.raises(SlotFull, match="send more slowly"):
        queue.add(pending("b", 900))
    queue.add(pending("c"))
    with pytest.raises(SlotFull):
        queue.add(pending("d"))
    for call in queue.take(10, 10_000):
        queue.settle(call)
    queue.add(pending("large", 5_000))  # alone, whatever its size: it would never fit otherwise


def test_a_repeat_joins_the_call_that_is_in_flight_and_other_content_is_refused():
    queue = Queue(0, 10, 1_000)
    first = pending("a")
    queue.add(first)
    queue.take(10, 1_000)
    assert queue.join(first.submission, first.digest, Future())
    with pytest.raises(KeyReused, match="'a'"):
        queue.join(Submission([], b"", "a", content_digest(b"other")), first.digest, Future())
    queue.settle(first)
    assert not queue.join(first.submission, first.digest, Future())


def test_the_queue_hands_out_no_more_bytes_than_a_transaction_takes_but_always_one():
    queue = Queue(0, 10, 100_000)
    for key in "abc":
        queue.add(pending(key, 1_000))
    assert len(queue.take(10, 2_500)) == 2
    assert len(queue.take(10, 10)) == 1


def test_everyone_who_waits_gets_the_outcome_whatever_they_wait_with():
    async def wait():
        loop = asyncio.get_running_loop()
        first, second = pending("a"), pending("b")
        waiting = [loop.create_future(), loop.create_future()]
        first.futures.append(waiting[0])
        second.futures.append(waiting[1])
        cancelled = Future()
        cancelled.cancel()
        first.futures.append(cancelled)
        resolve([(first, b"yes"), (second, KeyReused("b"))])
        assert first.futures[0].result() == b"yes"
        assert await waiting[0] == b"yes"
        with pytest.raises(KeyReused):
            await waiting[1]

    asyncio.run(wait())

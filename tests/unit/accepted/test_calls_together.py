"""Calls that are taken as one unit: one future for all, and an outcome for each."""

from __future__ import annotations

import asyncio

from pipestream.accepted import Submission, content_digest
from pipestream.accepted.calls import Calls
from pipestream.accepted.queue import Group, resolve
from pipestream.accepted.record import Accepted
from pipestream.errors import KeyReused, SlotFull, SlotStopped
from pipestream.settings import Settings


def submission(key, content=b"same"):
    return Submission((), f"answer of {key}".encode(), key, content_digest(content))


def settle(calls):
    batch = calls.next_batch(1_000, 1_000_000)
    accepted = [Accepted(call.digest, call.content, call.submission.answer, True, 1_000) for call in batch]
    calls.settle(batch, {each.digest: each for each in accepted})
    return len(batch)


def take(calls, submissions, then=settle):
    async def run():
        group = Group(asyncio.get_running_loop(), len(submissions))
        calls.take_many(submissions, group)
        done = then(calls)
        return done, await asyncio.wait_for(group.future, 10)

    return asyncio.run(run())


def opened(**settings):
    calls = Calls(Settings(**settings), 0)
    calls.open()
    return calls


def test_calls_of_a_group_are_in_one_transaction_and_each_has_its_answer():
    taken, outcomes = take(opened(), [submission("a"), submission("b"), submission("c")])

    assert taken == 3
    assert outcomes == [b"answer of a", b"answer of b", b"answer of c"]


def test_a_key_twice_in_a_group_is_accepted_once_and_answered_twice():
    taken, outcomes = take(opened(), [submission("a"), submission("a")])

    assert taken == 1
    assert outcomes == [b"answer of a", b"answer of a"]


def test_a_key_that_is_used_again_with_other_content_fails_alone():
    taken, (first, reused, third) = take(opened(), [submission("a"), submission("a", b"other"), submission("b")])

    assert (taken, first, third) == (2, b"answer of a", b"answer of b")
    assert isinstance(reused, KeyReused)


def test_a_call_for_which_there_is_no_room_fails_alone():
    _, (first, second) = take(opened(engine_waiting=1), [submission("a"), submission("b")])

    assert first == b"answer of a"
    assert isinstance(second, SlotFull)


def test_a_slot_that_is_shut_takes_none_of_them():
    calls = opened()
    calls.shut("it was closed")

    _, outcomes = take(calls, [submission("a"), submission("b")], then=lambda _: None)

    assert all(isinstance(outcome, SlotStopped) for outcome in outcomes)


def test_a_call_that_is_settled_twice_does_not_stand_for_another_one():
    def settle_first_one_while_all_fail(calls):
        batch = calls.next_batch(1, 1_000_000)
        (first,) = batch
        accepted = Accepted(first.digest, first.content, first.submission.answer, True, 1_000)
        # As when a slot is closed while it commits: both threads have found the first call unsettled.
        with_all = calls._queue.settle_all()
        calls.settle(batch, {first.digest: accepted})
        resolve((call, SlotStopped(0, "it was closed")) for call in with_all)

    _, (first, second) = take(opened(), [submission("a"), submission("b")], then=settle_first_one_while_all_fail)

    assert first == b"answer of a"
    assert isinstance(second, SlotStopped)

"""Which calls are tried again together after a transaction has failed."""

from __future__ import annotations

from concurrent.futures import Future

from pipestream.accepted.queue import Pending
from pipestream.accepted.slot import plan_tries
from pipestream.accepted.submission import Submission, key_digest
from pipestream.errors import BrokerRefused, BrokerUnavailable
from pipestream.kafka.records import OutputRecord

PASSING, FINAL = BrokerUnavailable("away"), BrokerRefused("no")


def make_calls(*topics: str) -> list[Pending]:
    made = [Submission([OutputRecord(topic, b"k", b"v")], b"", str(n)) for n, topic in enumerate(topics)]
    return [Pending(each, key_digest(each.key), Future()) for each in made]


def tries_until_all_failed(calls: list[Pending], error: Exception) -> int:
    todo, tries = [(calls, 1)], 0
    while todo:
        tries += 1
        todo += plan_tries(*todo.pop(), error)
    return tries


def test_a_passing_failure_is_tried_again_as_a_whole():
    calls = make_calls("a", "b")

    assert plan_tries(calls, 1, PASSING) == [(calls, 2)]


def test_a_failure_that_stays_is_tried_once_more_by_topic_so_that_calls_to_others_get_through():
    calls = make_calls("a", "b", "a")

    parts = plan_tries(calls, 4, PASSING)

    assert sorted([part for part, _ in parts], key=len) == [[calls[1]], [calls[0], calls[2]]]


def test_calls_to_a_topic_that_cannot_be_written_to_are_given_up_together():
    assert plan_tries(make_calls("a", "a"), 4, PASSING) == []
    assert tries_until_all_failed(make_calls(*["a", "b"] * 500), PASSING) == 4 + 2


def test_after_any_other_failure_halves_find_the_call_to_blame():
    calls = make_calls("a", "a", "a")

    assert plan_tries(calls, 1, FINAL) == [(calls[1:], 1), (calls[:1], 1)]
    assert plan_tries(calls[:1], 1, FINAL) == []

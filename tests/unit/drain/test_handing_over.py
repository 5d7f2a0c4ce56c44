"""Work that pushes its results, read as an iterator."""

from __future__ import annotations

import threading

import pytest

from pipestream.drain.hand_over import handed_over


def test_results_come_in_order():
    def work(give):
        for number in range(20):
            give(b"%d" % number)

    assert list(handed_over(work, "test")) == [b"%d" % number for number in range(20)]


def test_the_work_waits_until_its_results_are_taken():
    given = []

    def work(give):
        for number in range(20):
            give(b"%d" % number)
            given.append(number)

    results = handed_over(work, "test")
    next(results)

    assert len(given) <= 3, "one is taken, one waits, and one is being given"
    results.close()


def test_an_error_is_raised_after_what_came_before_it():
    def work(give):
        give(b"first")
        raise ValueError("broken")

    results = handed_over(work, "test")

    assert next(results) == b"first"
    with pytest.raises(ValueError, match="broken"):
        next(results)


def test_work_whose_results_nobody_reads_ends():
    has_ended = threading.Event()

    def work(give):
        try:
            while True:
                give(b"more")
        finally:
            has_ended.set()

    results = handed_over(work, "test")
    next(results)
    results.close()

    assert has_ended.is_set()

from __future__ import annotations

import os
import signal
import threading

import pytest

from pipestream.drain.side_by_side import run_side_by_side


def test_the_threads_are_at_work_at_the_same_moment():
    barrier = threading.Barrier(3, timeout=60)

    run_side_by_side(lambda: barrier.wait() and None, 3, interrupt=lambda: None)


def test_a_single_one_is_run_in_this_thread():
    ran_in = []

    run_side_by_side(lambda: ran_in.append(threading.current_thread()), 1, interrupt=lambda: None)

    assert ran_in == [threading.current_thread()]


def test_an_error_is_raised_when_the_others_have_ended():
    ended = []
    first = threading.Lock()

    def work() -> None:
        if first.acquire(blocking=False):
            raise ZeroDivisionError
        ended.append(True)

    with pytest.raises(ZeroDivisionError):
        run_side_by_side(work, 3, interrupt=lambda: None)

    assert len(ended) == 2


@pytest.mark.parametrize(
    "send",
    [lambda number: os.kill(os.getpid(), number), lambda number: signal.pthread_kill(threading.get_ident(), number)],
    ids=["the process", "another thread"],
)
def test_when_the_run_is_told_to_end_the_threads_are_interrupted_and_waited_for(send):
    """The system may hand a signal to any thread, and Python handles it in the main thread, which must not sleep on."""

    class ToldToEnd(BaseException):
        pass

    def end(*_: object) -> None:
        raise ToldToEnd

    before = signal.signal(signal.SIGUSR2, end)
    is_interrupted, ended = threading.Event(), []
    both_run = threading.Barrier(2, action=lambda: send(signal.SIGUSR2), timeout=60)

    def work() -> None:
        both_run.wait()
        assert is_interrupted.wait(60)
        ended.append(True)

    try:
        with pytest.raises(ToldToEnd):
            run_side_by_side(work, 2, is_interrupted.set)
    finally:
        signal.signal(signal.SIGUSR2, before)

    assert len(ended) == 2


def test_when_a_signal_arrives_while_threads_start_no_work_begins_unwatched(monkeypatch):
    """The pool forgets a thread whose start is interrupted; that thread must not work on after the run has ended."""

    class ToldToEnd(BaseException):
        pass

    begun = []
    start = threading.Thread.start

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        if len(started) == 2:
            raise ToldToEnd

    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", start_and_be_interrupted)

    with pytest.raises(ToldToEnd):
        run_side_by_side(lambda: begun.append(True), 2, interrupt=lambda: None)

    for thread in started:
        thread.join(60)
    assert begun == []

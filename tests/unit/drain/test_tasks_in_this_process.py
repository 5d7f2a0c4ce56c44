"""The runner that drains in this process, with stand-ins for what a task does."""

from __future__ import annotations

import threading
import time

import pytest

from pipestream.drain import local_runner
from pipestream.drain.crash_markers import CrashMarker, marker_key
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import RangeOutcome
from pipestream.errors import LeaseLost
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream_testing.made import make_task

# Only against hanging.
PATIENCE_S = 60


@pytest.fixture
def settings(tmp_path):
    return Settings(store_uri=(tmp_path / "objects").as_uri())


@pytest.fixture
def run_with(monkeypatch, settings):
    """Return what runs some tasks with a function instead of a drain: ``work(task, settings, check_lease)``."""

    def run(work, count, at_once=local_runner.AT_ONCE):
        def drain(task, settings, check_lease, _broker):
            work(task, settings, check_lease)
            return [outcome_of(task)]

        monkeypatch.setattr(local_runner, "drain_task", drain)
        runner = LocalRunner(settings, at_once=at_once)
        return runner, runner([make_task("topic", "n", offsets=((each, 0, 100),)) for each in range(count)])

    return run


def outcome_of(task):
    (each,) = task.ranges
    return RangeOutcome(task.topic, each.partition, each.start, each.end, None, 0.0)


def test_tasks_are_at_work_at_the_same_time_and_all_are_done(run_with):
    together = threading.Barrier(3, timeout=PATIENCE_S)

    _, outcomes = run_with(lambda *_: together.wait(), count=6, at_once=3)

    assert sorted(outcome.partition for outcome in outcomes) == [0, 1, 2, 3, 4, 5]


def test_tasks_at_work_share_what_a_process_may_have_in_flight(run_with, settings):
    shares = []

    _, outcomes = run_with(lambda _, own, __: shares.append(own.in_flight_bytes), count=6, at_once=4)

    assert len(list(outcomes)) == 6
    assert set(shares) == {settings.in_flight_bytes // 4}


def test_a_task_by_itself_runs_in_the_thread_that_asks_and_has_all_bytes(run_with, settings):
    seen = []

    _, outcomes = run_with(lambda _, own, __: seen.append((threading.current_thread(), own.in_flight_bytes)), count=1)

    assert len(list(outcomes)) == 1
    assert seen == [(threading.current_thread(), settings.in_flight_bytes)]


def test_where_a_process_has_died_tasks_run_one_after_the_other(run_with, settings):
    threads = []

    runner, _ = run_with(lambda *_: threads.append(threading.current_thread()), count=0)
    tasks = [make_task("topic", "n", offsets=((each, 0, 100),)) for each in range(3)]
    with open_store(settings.store_uri, settings) as store:
        store.put(marker_key(tasks[0].lane, tasks[0].topic_id, 2), CrashMarker(0, "hash", reach=10).encode())

    assert len(list(runner(tasks))) == 3
    assert threads == [threading.current_thread()] * 3


def test_no_further_task_begins_before_the_caller_has_looked_at_its_lease(run_with):
    begun = []

    _, outcomes = run_with(lambda task, *_: begun.append(task.offsets[0][0]), count=5, at_once=2)
    next(outcomes)
    outcomes.close()

    assert sorted(begun) == [0, 1]


def commit_until_refused(check_lease):
    """Ask for the lease again and again, as a task does before its transactions; return why it was refused."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            check_lease()
        except LeaseLost as error:
            return error.reason
        time.sleep(0.01)
    return "never"


def test_tasks_at_work_stop_before_their_next_transaction_when_the_caller_ends(run_with):
    refused = []

    def work(task, _, check_lease):
        if task.offsets[0][0] == 1:
            refused.append(commit_until_refused(check_lease))

    _, outcomes = run_with(work, count=2)
    assert next(outcomes).partition == 0
    outcomes.close()

    assert refused == ["the run was asked to end"]


def test_tasks_of_a_slot_whose_lease_is_lost_stop_before_their_next_transaction(run_with):
    at_work, refused = threading.Barrier(3, timeout=PATIENCE_S), []

    def work(_, __, check_lease):
        at_work.wait()
        refused.append(commit_until_refused(check_lease))

    runner, outcomes = run_with(work, count=2)
    draining = threading.Thread(target=list, args=[outcomes])
    draining.start()
    at_work.wait()
    runner.cancel(LeaseLost("topic", 0, "it ran out"))
    draining.join(PATIENCE_S)

    assert refused == ["it ran out", "it ran out"]


def test_an_error_that_nobody_expects_ends_the_run_and_the_other_tasks(run_with):
    begun = []

    def work(task, *_):
        begun.append(task.offsets[0][0])
        raise ZeroDivisionError

    _, outcomes = run_with(work, count=8, at_once=2)
    with pytest.raises(ZeroDivisionError):
        list(outcomes)

    assert sorted(begun) == [0, 1]

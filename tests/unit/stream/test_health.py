"""Whether a worker says that it works, and whether only a restart helps it."""

from __future__ import annotations

import threading

import pytest

from pipestream.errors import LeaseStoreUnavailable
from pipestream.stream.health import health_of
from pipestream_testing.waiting import wait_until


class Unreadable(dict):
    """What is wanted, where asking for it does what the test says."""

    def __init__(self, ask):
        super().__init__()
        self._ask = ask

    def items(self):
        self._ask()
        return super().items()


@pytest.fixture
def look(world):
    def look(worker, stall_s=60.0):
        return health_of(worker, threading.Event(), stall_s)

    return look


def test_a_worker_whose_rounds_succeed_serves(world, look):
    world.want("intake.a")
    worker = world.start("a")
    world.wait_counts(a=1)
    wait_until(lambda: worker.rounds, "no round")

    found = look(worker)

    assert (found.is_serving, found.is_alive, "problems" in found.details) == (True, True, False)


def test_a_worker_whose_loop_hangs_is_not_alive(world, look):
    world.want("intake.a")
    worker = world.start("a", health_stall_s=0.2)
    wait_until(lambda: worker.rounds, "no round")
    go_on = threading.Event()

    world.wanted = Unreadable(lambda: go_on.wait(60))
    wait_until(lambda: not look(worker).is_alive, "a loop that hangs counts as alive")
    found = look(worker)
    go_on.set()

    assert not found.is_serving
    assert "its last round ended" in found.details["problems"][0]
    wait_until(lambda: look(worker).is_alive, "a loop that comes around again counts as dead")


def test_a_worker_whose_lease_store_is_away_does_not_serve_and_is_alive(world, look):
    def fail():
        raise LeaseStoreUnavailable("the store is away")

    worker = world.start("a", health_stall_s=60.0)
    wait_until(lambda: worker.rounds, "no round")
    world.wanted = Unreadable(fail)
    wait_until(lambda: worker.last_error, "no round failed")

    found = look(worker)

    assert (found.is_serving, found.is_alive) == (False, True)
    assert "the store is away" in found.details["problems"][0]


def test_a_worker_with_a_slot_that_does_not_move_does_not_serve_and_is_alive(world, look):
    world.want("intake.a")
    worker = world.start("a")
    world.wait_counts(a=1)
    wait_until(lambda: worker.rounds and look(worker).is_serving, "it does not serve")

    world.stalled_s = 61.0
    found = look(worker)

    assert (found.is_serving, found.is_alive) == (False, True)
    assert found.details["problems"] == ["intake.a@g slot 0: 0 records are in work, and nothing was committed for 61 s"]


def test_a_worker_that_is_asked_to_stop_does_not_serve_and_is_alive(world):
    worker = world.start("a", health_stall_s=0.001, reconcile_s=0.001)
    stop = threading.Event()
    stop.set()

    found = health_of(worker, stop, 60.0)

    assert (found.is_serving, found.is_alive) == (False, True)

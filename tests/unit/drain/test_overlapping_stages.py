from __future__ import annotations

import threading

import pytest

from pipestream.drain.overlap import Ahead, Behind, InFlight, finish
from pipestream_testing.waiting import wait_until


def nothing():
    pass


def test_the_next_item_is_made_while_the_last_one_is_used_and_no_more_than_two_ahead():
    made = []

    def source():
        for number in range(10):
            made.append(number)
            yield number

    with Ahead(source(), nothing, "ahead") as ahead:
        items = iter(ahead)
        assert next(items) == 0
        wait_until(lambda: made == [0, 1, 2])
        assert [*items] == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_an_error_of_the_source_comes_in_its_place():
    def source():
        yield 1
        raise ValueError("broken")

    with Ahead(source(), nothing, "ahead") as ahead:
        items = iter(ahead)
        assert next(items) == 1
        with pytest.raises(ValueError, match="broken"):
            next(items)


def test_a_source_that_waits_is_stopped_and_its_thread_ends():
    stopped = threading.Event()

    def source():
        stopped.wait()
        return
        yield

    with Ahead(source(), stopped.set, "waits-until-stopped"):
        assert "waits-until-stopped" in [thread.name for thread in threading.enumerate()]
    assert "waits-until-stopped" not in [thread.name for thread in threading.enumerate()]


def test_pieces_are_done_in_order_and_a_failure_ends_them():
    done = []

    def fail():
        raise ValueError("second")

    with Behind("behind") as behind:
        behind.submit(lambda: done.append(1))
        behind.submit(fail)
        with pytest.raises(ValueError, match="second"):
            behind.submit(lambda: done.append(3))
        assert isinstance(behind.wait(), ValueError)
    assert done == [1]


def test_the_error_of_the_earlier_item_is_raised_however_late_it_comes():
    later_failed = threading.Event()

    def fail_late():
        later_failed.wait()
        raise ValueError("earlier item")

    def fail_soon():
        later_failed.set()
        raise ValueError("later item")

    with Behind("commit") as committing, Behind("store") as storing:
        committing.submit(fail_late)
        storing.submit(fail_soon)
        with pytest.raises(ValueError, match="earlier item"):
            finish([storing, committing])


def test_the_first_stage_waits_while_too_many_bytes_are_in_flight():
    in_flight = InFlight(100)
    in_flight.add(100)
    entered = threading.Event()
    thread = threading.Thread(target=lambda: in_flight.wait_for_room() and entered.set())
    thread.start()

    assert not entered.wait(0.05)
    in_flight.add(-1)
    assert entered.wait(60)
    thread.join()


def test_nobody_waits_for_room_once_the_drain_ends():
    in_flight = InFlight(1)
    in_flight.add(1)
    in_flight.close()

    assert not in_flight.wait_for_room()

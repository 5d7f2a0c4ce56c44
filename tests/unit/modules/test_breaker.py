from __future__ import annotations

import threading

import pytest

from pipestream.errors import ModuleDown
from pipestream.modules.breaker import CircuitBreaker


class Module:
    """A module that is down until it is told otherwise, and counts how often it is asked."""

    def __init__(self):
        self.reason, self.asked = "no answer", 0

    def __call__(self):
        self.asked += 1
        return self.reason


@pytest.fixture
def module():
    return Module()


def make(module, failures=2, pause_s=0.01):
    return CircuitBreaker("grpc:m", failures, pause_s, module)


def test_calls_pass_until_enough_in_a_row_did_not_get_through(module):
    breaker = make(module, failures=3, pause_s=600)  # so that no probe asks the module
    for _ in range(2):
        breaker.failed("refused")
    breaker.got_through()
    for _ in range(2):
        breaker.failed("refused")

    breaker.admit(0)
    breaker.failed("refused")

    assert breaker.is_open
    with pytest.raises(ModuleDown, match=r"grpc:m is down \(refused\).* within 0 s"):
        breaker.admit(0)


def test_a_call_waits_and_passes_when_the_module_is_back(module):
    breaker = make(module)
    breaker.trip("not serving")
    passed = threading.Event()

    def call():
        breaker.admit(60)
        passed.set()

    thread = threading.Thread(target=call)
    thread.start()
    while module.asked < 2:
        assert not passed.is_set()
        passed.wait(0.01)
    module.reason = ""

    assert passed.wait(60)
    thread.join()
    assert not breaker.is_open


def test_a_call_waits_no_longer_than_it_may(module):
    breaker = make(module)
    breaker.trip("not serving")

    with pytest.raises(ModuleDown, match="no answer"):
        breaker.admit(0.1)

    assert module.asked >= 1


def test_one_of_many_waiting_calls_asks_and_all_pass():
    asked, inside = [], threading.Event()

    def probe():
        asked.append(threading.current_thread())
        inside.wait(0.2)
        return ""

    breaker = CircuitBreaker("grpc:m", 1, 0.01, probe)
    breaker.failed("refused")
    threads = [threading.Thread(target=breaker.admit, args=(60,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert len(asked) == 1


def test_pauses_grow_and_have_jitter(module):
    now = [0.0]
    breaker = CircuitBreaker("grpc:m", 1, 1.0, module, clock=lambda: now[0])
    breaker.failed("refused")
    pauses = []
    for _ in range(8):
        before = module.asked
        while module.asked == before:
            now[0] += 0.05
            with pytest.raises(ModuleDown):
                breaker.admit(0)
        pauses.append(now[0] - sum(pauses))

    assert 0.5 <= pauses[0] <= 1.1
    assert 1.0 <= pauses[1] <= 2.1
    assert 5.0 <= pauses[-1] <= 10.1
    assert len({round(pause % 1, 2) for pause in pauses}) > 1


def test_a_probe_that_raises_leaves_the_breaker_open_for_the_next_try():
    answers = [RuntimeError("bug"), ""]

    def probe():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    breaker = CircuitBreaker("grpc:m", 1, 0.001, probe)
    breaker.failed("refused")

    with pytest.raises(RuntimeError, match="bug"):
        breaker.admit(30)
    breaker.admit(30)

    assert not breaker.is_open

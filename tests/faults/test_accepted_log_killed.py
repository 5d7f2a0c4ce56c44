"""Kill a slot of the engine at every step, and its broker: every call that was accepted is there exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from pipestream import faults
from pipestream.accepted import AcceptedSlot, Submission, content_digest
from pipestream.errors import SlotFull
from pipestream.kafka.records import OutputRecord
from pipestream.settings import CONFIG_VARIABLE
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.accepted import read_values
from pipestream_testing.length import by_length
from pipestream_testing.oracle import Verdict
from pipestream_testing.settings_file import write_settings

pytestmark = pytest.mark.stack

KEYS = by_length(120, 2_000)
# A point is reached once when a slot starts, or in every transaction: the second is in the middle of the calls.
STEPS = {
    faults.SLOT_FENCED: [1],
    faults.SLOT_READ: [1],
    faults.CALLS_GATHERED: by_length([2], [1, 2, 3]),
    faults.CHUNK_PRODUCED: by_length([2], [1, 2, 3]),
    faults.CALLS_COMMITTED: by_length([2], [1, 2, 3]),
}


@pytest.fixture
def output_topic(settings, unique):
    TopicAdmin(settings).create([TopicSpec(f"{unique}-out", 2, None, Purpose.OVERRIDE)])
    return f"{unique}-out"


@pytest.fixture
def run_slot(settings, unique, tmp_path, output_topic):
    """Send keys to a slot in a process of its own; return its answers and its exit code."""
    config = tmp_path / "slot.toml"
    write_settings(config, settings)

    def run(keys, fault=""):
        environment = {**os.environ, CONFIG_VARIABLE: str(config), **({faults.VARIABLE: fault} if fault else {})}
        command = [sys.executable, "-m", "pipestream_testing.accepted_process", output_topic, unique]
        with (tmp_path / "slot.log").open("a") as log:
            done = subprocess.run(
                command,
                env=environment,
                input="".join(f"{key}\n" for key in keys),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=300,
            )
        return dict(line.split() for line in done.stdout.splitlines()), done.returncode

    return run


def judge_values(settings, topic, accepted, sent):
    found = read_values(settings, topic)
    return Verdict(
        lost=sum(key.encode() not in found for key in accepted),
        duplicated=sum(times - 1 for times in found.values()) + sum(value.decode() not in sent for value in found),
    )


def test_a_slot_killed_at_any_step_accepts_every_key_once_and_repeats_its_answer(
    run_slot, settings, output_topic, rounds
):
    first = [f"before-{number}" for number in range(KEYS)]
    answers, code = run_slot(first)
    assert (code, len(answers)) == (0, KEYS)
    sent = list(first)
    for point, places in STEPS.items():
        for nth in places:
            started = time.monotonic()
            sent += [f"{point}-{nth}-{number}" for number in range(KEYS)]
            # Callers repeat what they have an answer for, too: an answer may be lost on its way.
            found, code = run_slot(sent, f"{point}=kill@{nth}")
            assert code == -9, f"{point} was not reached {nth} times"
            _check_answers(answers, found)
            found, code = run_slot(sent)
            assert (code, len(found)) == (0, len(sent))
            _check_answers(answers, found)
            verdict = judge_values(settings, output_topic, answers, set(sent))
            rounds.add(f"engine slot killed at {point}", verdict, time.monotonic() - started)


def _check_answers(answers, found):
    """A key that was answered before has the same answer."""
    for key, answer in found.items():
        assert answers.setdefault(key, answer) == answer, key


@pytest.fixture
def breakable_topic(breakable_settings, unique):
    TopicAdmin(breakable_settings).create([TopicSpec(f"{unique}-out", 2, None, Purpose.OVERRIDE)])
    return f"{unique}-out"


def test_a_broker_killed_under_calls_settles_every_one_of_them(
    breakable_stack, breakable_settings, breakable_topic, unique, rounds
):
    """Calls with a key and without: nobody repeats any of them, so each outcome has to be found out."""
    slot = AcceptedSlot(breakable_settings, 0, 1, unique)
    slot.start()
    stop, futures = threading.Event(), {}

    def call():
        for number in range(1_000_000):
            if stop.is_set():
                return
            name = f"{threading.get_ident()}-{number}"
            output = OutputRecord(breakable_topic, name.encode(), name.encode())
            key = name if number % 2 else ""
            try:
                futures[name] = slot.submit(Submission([output], b"ok", key, content_digest(name.encode())))
            except SlotFull:
                time.sleep(0.01)
            time.sleep(0.002)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    broker = breakable_stack.server("kafka")
    for _ in range(by_length(1, 5)):
        before = len(futures)
        while len(futures) < before + 200:
            time.sleep(0.01)
        broker.kill()
        killed_at = time.monotonic()
        broker.start()
    while not futures[max(futures)].done() and time.monotonic() < killed_at + 200:
        time.sleep(0.05)
    stop.set()
    for caller in callers:
        caller.join()
    assert Counter(future.result(300) for future in futures.values()) == {b"ok": len(futures)}
    took = time.monotonic() - killed_at
    slot.close(60)
    verdict = judge_values(breakable_settings, breakable_topic, set(futures), set(futures))
    rounds.add("Kafka killed under calls of the engine", verdict, took)

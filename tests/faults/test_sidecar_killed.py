"""Kill a sidecar under load: another takes over, and every document arrives once, whoever processes it."""

from __future__ import annotations

import random
import threading
import time

import pytest

from pipestream_testing.engine_processes import EngineProcess
from pipestream_testing.length import by_length, seeds
from pipestream_testing.sidecars import SidecarProcess, apply_streaming, holders, wait_drained
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

ROUNDS = by_length(1, 20)
RECORDS = by_length(150, 2_000)


@pytest.fixture
def pipeline(make_pipeline):
    return make_pipeline(
        chunk_records=10, lease_ttl_s=5.0, reconcile_s=0.5, stream_follow_s=0.5, stream_record_s=1.0, max_attempts=10
    )


@pytest.fixture
def start_sidecar(pipeline):
    started = []

    def start(label, *arguments):
        started.append(SidecarProcess(pipeline, label, *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def load(pipeline, topic):
    """Send documents in the background, a few at a time; return all of their ids at the end."""
    sent, failures = [], []

    def send():
        try:
            for number in range(RECORDS // 10):
                for partition in (0, 1):
                    documents = [f"{partition}-{number}-{each}" for each in range(5)]
                    pipeline.send(topic, documents, partition=partition)
                    sent.extend(documents)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=send)

    def finish():
        thread.join(300)
        assert not failures, failures
        assert not thread.is_alive()
        return sent

    thread.start()
    yield finish
    thread.join(300)


def progress(pipeline, topic):
    return sum(pipeline.group_offsets(topic).values())


@pytest.mark.parametrize("seed", seeds(1, ROUNDS))
def test_a_sidecar_killed_under_load_is_succeeded_by_another(pipeline, topic, unique, check, start_sidecar, load, seed):
    apply_streaming(pipeline, replicas=2)
    sidecars = [start_sidecar("one"), start_sidecar("two")]
    for sidecar in sidecars:
        sidecar.wait_ready()
    wait_until(lambda: all(holders(pipeline)[sidecar.name] for sidecar in sidecars), "they do not share")
    wait_until(lambda: progress(pipeline, topic) > 0, "nothing is drained")
    time.sleep(random.Random(seed).uniform(0.0, 1.0))
    killed, other = random.Random(seed).sample(sidecars, 2)

    killed.kill()
    died_at = time.monotonic()
    wait_until(lambda: set(holders(pipeline)) == {other.name}, "the other has not taken over")

    documents = load()
    second = f"pipestream.{unique}.second"
    wait_drained(pipeline, [topic, second], timeout_s=240)
    check("SIGKILL of a sidecar under load", pipeline, documents, died_at, drained=(topic, second))


@pytest.mark.parametrize("seed", seeds(1, ROUNDS))
def test_a_sidecar_that_hands_over_to_an_engine_is_killed_and_the_engine_recognises_the_repeats(
    pipeline, topic, unique, tmp_path, check, start_sidecar, load, seed
):
    apply_streaming(pipeline)
    engine = EngineProcess(pipeline.settings, tmp_path, workers=1)
    engine.start()
    try:
        engine.wait_ready()
        killed = start_sidecar("one", "--engine", engine.address)
        killed.wait_ready()
        wait_until(lambda: progress(pipeline, topic) > 0, "nothing is handed over", timeout_s=240)
        time.sleep(random.Random(seed).uniform(0.0, 1.0))

        killed.kill()
        died_at = time.monotonic()
        other = start_sidecar("two", "--engine", engine.address)

        other.wait_ready()
        documents = load()
        second = f"pipestream.{unique}.second"
        wait_drained(pipeline, [topic, second], timeout_s=240)
        check("SIGKILL of a sidecar with an engine", pipeline, documents, died_at, drained=(topic, second))
    finally:
        engine.kill()

"""Kill a stream at each of its named points, and at any time; whatever dies when, every document arrives once."""

from __future__ import annotations

import random
import signal
import time

import pytest

from pipestream import faults
from pipestream.leases import TopicMode
from pipestream_testing.drains import DrainProcess
from pipestream_testing.length import by_length, seeds
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.streams import QUICK, set_mode
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

ROUNDS = by_length(1, 20)
# Chunks are many, and so are ledger commits; the first of each has nothing before it, so it is killed at the second.
STEPS = [
    (point, 1 if point == faults.STREAM_RECONCILED else 2 + number % 3)
    for point in faults.STREAM_POINTS
    for number in range(ROUNDS)
]


@pytest.fixture
def pipeline(make_pipeline, topic):
    made = make_pipeline(chunk_records=5, lease_ttl_s=10.0, **QUICK)
    set_mode(made.settings, topic, TopicMode.STREAMING)
    return made


@pytest.fixture
def start_stream(pipeline, topic):
    """Start a stream in a process of its own, with a fault if asked for."""
    started = []

    def start(run_id, fault=""):
        started.append(DrainProcess(pipeline, topic, run_id, fault, program="stream_process"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def check_counts(pipeline, topic, documents):
    """Check that the ledger knows what became of every record, also of those that a dead stream drained."""
    entries = pipeline.entries(topic)
    assert all(entry.tally is not None for entry in entries), entries
    assert sum(entry.tally.records for entry in entries) == len(documents)


@pytest.mark.parametrize(("point", "nth"), STEPS)
def test_a_stream_killed_at_any_step_loses_and_repeats_nothing_and_no_count(
    pipeline, topic, documents, fill, check, start_stream, stream_to_the_end, point, nth
):
    half = len(documents) // 2
    fill(pipeline, documents[:half])
    killed = start_stream("stream-1", f"{point}=kill@{nth}")
    # What comes in later makes a second ledger commit.
    killed_or_recorded = wait_until(lambda: not killed.is_running() or pipeline.entries(topic), timeout_s=240)
    assert killed_or_recorded
    fill(pipeline, documents[half:])
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()

    stream_to_the_end()

    check(f"SIGKILL of a stream at {point}", pipeline, documents, died_at)
    check_counts(pipeline, topic, documents)


@pytest.mark.parametrize("seed", seeds(1, ROUNDS))
def test_a_stream_killed_at_any_time_loses_and_repeats_nothing(
    pipeline, topic, documents, fill, check, start_stream, stream_to_the_end, gate, seed
):
    fill(pipeline, documents)
    killed = start_stream("stream-1", gate.at(faults.STREAM_RECONCILED))
    killed.wait_for(gate)
    gate.open()
    time.sleep(random.Random(seed).uniform(0.0, 3.0))
    killed.kill()
    died_at = time.monotonic()

    stream_to_the_end()

    check("SIGKILL of a stream at any time", pipeline, documents, died_at)
    check_counts(pipeline, topic, documents)


def test_a_stream_that_is_asked_to_end_leaves_nothing_to_recover(pipeline, topic, documents, fill, check, start_stream):
    fill(pipeline, documents)
    stream = start_stream("stream-1")
    stream.wait_until(lambda: sum(pipeline.group_offsets(topic).values()) >= 10)

    stream.send_signal(signal.SIGTERM)

    assert stream.wait() == 0, stream.log
    drained = sum(pipeline.group_offsets(topic).values())
    assert sum(len(entry.range) for entry in pipeline.entries(topic)) == drained
    set_mode(pipeline.settings, topic, TopicMode.BATCH)
    report = Pipeline(pipeline.settings, pipeline.graph_file).drain(topic, "run-2")
    assert report.recovered_ranges == 0
    check("SIGTERM of a stream", pipeline, documents)

"""Kill the drain at each of its named points, and at any time; whatever dies when, every document arrives once."""

from __future__ import annotations

import random
import signal
import time

import pytest

from pipestream import faults
from pipestream.ledger import EntryKind
from pipestream_testing.length import by_length, seeds

pytestmark = pytest.mark.stack

ROUNDS = by_length(1, 20)
CHUNKS = 8
# The driver's own points are reached once a run, a chunk's once a chunk: here in one after the other.
STEPS = [
    (point, 1 + (2 + number) % CHUNKS if point.startswith("chunk-") else 1)
    for point in faults.POINTS
    for number in range(ROUNDS)
]


@pytest.mark.parametrize(("point", "nth"), STEPS)
def test_a_drain_killed_at_any_step_loses_and_repeats_nothing(
    pipeline, documents, fill, check, start_drain, drain_after_death, point, nth
):
    fill(pipeline, documents)
    killed = start_drain(pipeline, "run-1", f"{point}=kill@{nth}")
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()

    drain_after_death(pipeline, "run-2")

    check(f"SIGKILL of the driver at {point}", pipeline, documents, died_at)


@pytest.mark.parametrize("seed", seeds(1, ROUNDS))
def test_a_drain_killed_at_any_time_loses_and_repeats_nothing(
    pipeline, documents, fill, check, start_drain, drain_after_death, gate, seed
):
    fill(pipeline, documents)
    # From the lease on, so that the time to die falls into the drain and not into the start of Python.
    killed = start_drain(pipeline, "run-1", gate.at(faults.LEASE_ACQUIRED))
    killed.wait_for(gate)
    gate.open()
    time.sleep(random.Random(seed).uniform(0.0, 1.0))
    killed.kill()
    died_at = time.monotonic()

    drain_after_death(pipeline, "run-2")

    check("SIGKILL of the driver at any time", pipeline, documents, died_at)


FIRST = "  - id: first\n    module: python:pipestream_testing.steps:pass_on\n"
SIDE_BY_SIDE = (FIRST, FIRST.replace("pass_on\n", "pass_on_side_by_side\n    concurrency: 4\n"))
IN_THE_RECORD = ("    entry: first\n", "    entry: first\n    persistence: {persist_pipedoc: false}\n")
CHUNK_POINTS = [(point, nth) for point, nth in STEPS if point.startswith("chunk-")]


@pytest.mark.parametrize("change", [SIDE_BY_SIDE, IN_THE_RECORD], ids=["side by side", "in their records"])
@pytest.mark.parametrize(("point", "nth"), by_length([(faults.CHUNK_PRODUCED, 3)], CHUNK_POINTS))
def test_a_drain_of_other_documents_killed_at_any_step_loses_and_repeats_nothing(
    make_pipeline, documents, fill, check, start_drain, drain_after_death, point, nth, change
):
    pipeline = make_pipeline(change)
    fill(pipeline, documents)
    killed = start_drain(pipeline, "run-1", f"{point}=kill@{nth}")
    assert killed.wait() == -signal.SIGKILL, killed.log
    died_at = time.monotonic()

    drain_after_death(pipeline, "run-2")

    check(f"SIGKILL at {point}, documents side by side or in their records", pipeline, documents, died_at)


@pytest.mark.parametrize("point", by_length([faults.CHUNK_COMMITTED], faults.POINTS[2:-1]))
def test_a_retry_of_the_killed_run_finishes_its_own_plan(
    pipeline, documents, fill, check, start_drain, end_leases, topic, point
):
    fill(pipeline, documents)
    start_drain(pipeline, "run-1", f"{point}=kill").wait()
    died_at = time.monotonic()
    end_leases(pipeline)

    again = start_drain(pipeline, "run-1")

    assert again.wait() == 0, again.log
    assert '"status": "drained"' in again.log
    check(f"SIGKILL at {point}, same run again", pipeline, documents, died_at)
    entries = pipeline.entries(topic)
    assert {entry.kind for entry in entries} == {EntryKind.DRAINED}
    assert sum(entry.tally.records for entry in entries) == len(documents)

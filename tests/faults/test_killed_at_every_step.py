"""Kill the drain at each of its named points, and at any time; whatever dies when, every document arrives once."""

from __future__ import annotations

import random
import signal
import time

import pytest

from pipestream import faults
from pipestream.ledger import EntryKind
from pipestream.testing.length import by_length, seeds
from pipestream.testing.settings_file import write_settings
from pipestream.testing.submit import submit_drain

pytestmark = pytest.mark.stack

ROUNDS = by_length(1, 20)
# The driver's own points are reached once a run, a chunk's once a chunk: here in one after the other.
STEPS = [
    (point, 1 + (2 + number) % 7 if point.startswith("chunk-") else 1)
    for point in faults.POINTS
    for number in range(by_length(1, 5))
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


@pytest.mark.parametrize("point", by_length([faults.CHUNK_COMMITTED], faults.POINTS[2:7]))
def test_a_retry_of_the_killed_run_finishes_its_own_plan(pipeline, documents, fill, check, start_drain, topic, point):
    fill(pipeline, documents)
    start_drain(pipeline, "run-1", f"{point}=kill").wait()
    died_at = time.monotonic()

    again = start_drain(pipeline, "run-1")

    assert again.wait() == 0, again.log
    assert '"status": "drained"' in again.log
    check(f"SIGKILL at {point}, same run again", pipeline, documents, died_at)
    entries = pipeline.entries(topic)
    assert {entry.kind for entry in entries} == {EntryKind.DRAINED}
    assert sum(entry.tally.records for entry in entries) == len(documents)


@pytest.fixture
def submit(pipeline, topic, stack, spark_master, tmp_path):
    """Drain over Spark, with a fault."""
    config = tmp_path / "spark.toml"
    write_settings(config, pipeline.settings)

    def submit(run_id, **variables):
        environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config), **variables}
        return submit_drain(pipeline, topic, run_id, environment, master=spark_master)

    return submit


@pytest.mark.spark
def test_a_spark_drain_killed_between_commit_and_entry_is_recovered_not_redone(
    pipeline, documents, fill, check, drain_after_death, topic, submit
):
    fill(pipeline, documents)
    killed = submit("run-1", **{faults.VARIABLE: f"{faults.RANGES_DRAINED}=kill"})
    died_at = time.monotonic()
    assert killed.outcome == {}
    assert pipeline.entries(topic) == []

    drain_after_death(pipeline, "run-2")

    entries = pipeline.entries(topic)
    assert {entry.kind for entry in entries} == {EntryKind.RECOVERED}
    assert sum(entry.tally.records for entry in entries) == len(documents)
    check("SIGKILL of the Spark driver before its entry", pipeline, documents, died_at)


def worker_faults():
    """At each point of a chunk, and at any time."""
    for point in (faults.CHUNK_PROCESSED, faults.CHUNK_PRODUCED, faults.CHUNK_COMMITTED):
        yield "in a chunk", f"{point}=kill@2"
    for seed in seeds(1, ROUNDS):
        yield "at any time", f"{faults.CHUNK_PROCESSED}=kill:{random.Random(seed).uniform(0.001, 0.3):.3f}"


# Not in every test run: there, the module that ends its worker tells as much.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("when", "fault"), list(worker_faults()))
def test_a_spark_worker_that_is_killed_is_replaced_and_the_run_goes_through(
    pipeline, documents, fill, check, topic, submit, tmp_path, when, fault
):
    fill(pipeline, documents)
    marker = tmp_path / "killed"

    done = submit("run-1", **{faults.VARIABLE: fault, faults.ONCE_VARIABLE: str(marker)})

    assert marker.exists(), f"no worker reached {fault}"
    assert done.exit_code == 0, done.log
    recovered_s = time.time() - marker.stat().st_mtime
    check(f"SIGKILL of a Spark worker {when}", pipeline, documents, time.monotonic() - recovered_s)
    assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(documents)

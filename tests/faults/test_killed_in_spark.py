"""Kill a Spark job's driver at each of its points, and its workers in any chunk, at any record and at any time."""

from __future__ import annotations

import random
import signal
import time
from itertools import product

import pytest

from pipestream import faults
from pipestream.ledger import EntryKind
from pipestream_testing.length import by_length, seeds
from pipestream_testing.settings_file import write_settings
from pipestream_testing.submit import submit_drain

pytestmark = [pytest.mark.stack, pytest.mark.spark]

FIRST = "  - id: first\n    module: python:pipestream_testing."
CHUNK_POINTS = [point for point in faults.POINTS if point.startswith("chunk-")]
DRIVER_POINTS = [point for point in faults.POINTS if point not in CHUNK_POINTS]
# A worker drains one partition at least, which takes four chunks.
CHUNKS = 4
# The first and the last of a chunk and of a range, and some between: with those at a chunk's points, 20 rounds.
RECORDS = ["0-0", "0-4", "0-9", "0-17", "1-10", "1-29", "1-30", "1-34"]


@pytest.fixture
def submit(topic, stack, spark_master, tmp_path):
    """Drain over Spark, with variables that say what goes wrong."""

    def submit(pipeline, run_id, variables):
        config = tmp_path / "spark.toml"
        write_settings(config, pipeline.settings)
        environment = {**stack.environment(), "PIPESTREAM_CONFIG": str(config), **variables}
        return submit_drain(pipeline, topic, run_id, environment, master=spark_master)

    return submit


@pytest.mark.parametrize("point", by_length([faults.RANGES_DRAINED], DRIVER_POINTS))
def test_after_a_spark_driver_that_was_killed_the_next_run_recovers_what_was_done_and_does_the_rest(
    pipeline, documents, fill, check, drain_after_death, topic, submit, point
):
    fill(pipeline, documents)
    killed = submit(pipeline, "run-1", {faults.VARIABLE: f"{point}=kill"})
    died_at = time.monotonic()
    assert killed.outcome == {}
    assert bool(pipeline.entries(topic)) == (point == faults.RANGES_ENTERED)

    drain_after_death(pipeline, "run-2")

    entries = pipeline.entries(topic)
    kind = EntryKind.RECOVERED if point == faults.RANGES_DRAINED else EntryKind.DRAINED
    assert {entry.kind for entry in entries} == {kind}
    assert sum(entry.tally.records for entry in entries) == len(documents)
    check(f"SIGKILL of the Spark driver at {point}", pipeline, documents, died_at)


@pytest.fixture
def check_replaced(documents, fill, check, topic, submit):
    """Drain with a worker that kills itself once and leaves a marker, and judge: the run must go through."""

    def check_replaced(when, pipeline, marker, variables):
        fill(pipeline, documents)

        done = submit(pipeline, "run-1", variables)

        assert marker.exists(), "no worker was killed"
        assert done.exit_code == 0, done.log
        recovered_s = time.time() - marker.stat().st_mtime
        check(f"SIGKILL of a Spark worker {when}", pipeline, documents, time.monotonic() - recovered_s)
        assert sum(entry.tally.records for entry in pipeline.entries(topic)) == len(documents)

    return check_replaced


def worker_faults():
    """At each point of each chunk, and at any time."""
    for point, nth in product(CHUNK_POINTS, range(1, CHUNKS + 1)):
        yield "in a chunk", f"{point}=kill@{nth}"
    for seed in seeds(1, 20):
        yield "at any time", f"{faults.CHUNK_PROCESSED}=kill:{random.Random(seed).uniform(0.001, 0.3):.3f}"


# Not in every test run: there, the module that ends its worker tells as much.
@pytest.mark.slow
@pytest.mark.parametrize(("when", "fault"), list(worker_faults()))
def test_a_spark_worker_that_is_killed_is_replaced_and_the_run_goes_through(
    pipeline, check_replaced, tmp_path, when, fault
):
    marker = tmp_path / "killed"
    check_replaced(when, pipeline, marker, {faults.VARIABLE: fault, faults.ONCE_VARIABLE: str(marker)})


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS)
def test_a_spark_worker_that_is_killed_at_a_record_is_replaced_and_the_run_goes_through(
    make_pipeline, check_replaced, tmp_path, record
):
    marker = tmp_path / "killed"
    config = f"{{only: '{record}', marker: '{marker}', signal: {signal.SIGKILL:d}}}"
    pipeline = make_pipeline((FIRST + "steps:pass_on", FIRST + f"modules:dying\n    config: {config}"))

    check_replaced("at a record", pipeline, marker, {})

"""Stop a run until its lease has run out and another has taken over: when it wakes up, it commits nothing more."""

from __future__ import annotations

import re
import signal
import time

import pytest

from pipestream import faults
from pipestream_testing.length import LONG, by_length

pytestmark = pytest.mark.stack

# Behind its last point a run has nothing left to commit, so waking up late does not matter there.
POINTS = [point for point in faults.POINTS if point != faults.RANGES_ENTERED]
GIVES_UP = re.compile(r"^(LeaseLost|ProducerFenced|RangeFailed|LedgerConflict): ", re.MULTILINE)


@pytest.fixture
def stop(start_drain, end_leases):
    """Start a run that stops at a point, and end its lease unless it is to run out; return it, and when it stopped."""

    def stop(pipeline, point, nth=1, *, until_its_lease_runs_out=LONG):
        stale = start_drain(pipeline, "stale", f"{point}=stop@{nth}")
        stale.wait_until_stopped()
        if not until_its_lease_runs_out:
            end_leases(pipeline)
        return stale, time.monotonic()

    return stop


@pytest.fixture
def wake(topic):
    """Continue a stopped run, and make sure that it ends as stale and leaves everything as it is."""

    def standing(pipeline):
        return pipeline.group_offsets(topic), pipeline.entries(topic)

    def wake(pipeline, stale):
        before = standing(pipeline)
        stale.send_signal(signal.SIGCONT)
        assert stale.wait() != 0, stale.log
        assert GIVES_UP.search(stale.log), stale.log
        assert standing(pipeline) == before, stale.log

    return wake


@pytest.fixture
def check_overtaken(drain_when_free, wake, check):
    """Let another run take everything over, then wake the stopped one and judge. Waking up is no part of recovering."""

    def check_overtaken(fault, pipeline, documents, stale, stopped_at):
        drain_when_free(pipeline, "new")
        recovered_after_s = time.monotonic() - stopped_at
        wake(pipeline, stale)
        check(fault, pipeline, documents, time.monotonic() - recovered_after_s)

    return check_overtaken


@pytest.mark.parametrize("point", by_length([faults.PLAN_WRITTEN], POINTS))
def test_a_run_that_was_overtaken_commits_nothing(pipeline, documents, fill, stop, check_overtaken, point):
    fill(pipeline, documents)
    stale, stopped_at = stop(pipeline, point, until_its_lease_runs_out=True)

    check_overtaken(f"SIGSTOP at {point}, overtaken", pipeline, documents, stale, stopped_at)


@pytest.mark.parametrize("point", by_length([faults.CHUNK_PRODUCED], POINTS))
def test_a_run_that_was_overtaken_by_a_shorter_one_commits_nothing(
    pipeline, documents, fill, stop, drain_when_free, wake, check, point
):
    fill(pipeline, documents)
    # It knows by its clock that its lease has run out. If it did not, it could commit what the new run leaves.
    stale, stopped_at = stop(pipeline, point, until_its_lease_runs_out=True)

    # Ends in the middle of the stale run's ranges.
    drain_when_free(pipeline, "new", budget=24)
    wake(pipeline, stale)
    drain_when_free(pipeline, "last")

    check(f"SIGSTOP at {point}, overtaken half way", pipeline, documents, stopped_at)


def test_a_run_that_was_overtaken_by_a_longer_one_commits_nothing(pipeline, documents, fill, stop, check_overtaken):
    first = [name for name in documents if int(name[2:]) < 15]
    fill(pipeline, first)
    stale, stopped_at = stop(pipeline, faults.CHUNK_PROCESSED, nth=2)

    # The run that takes over takes these as well.
    fill(pipeline, [name for name in documents if name not in first])

    check_overtaken("SIGSTOP, overtaken by a longer range", pipeline, documents, stale, stopped_at)


def test_an_ordered_run_that_was_overtaken_commits_nothing(make_pipeline, documents, fill, stop, check_overtaken):
    # The first partition is done when the run is stopped, so the one that takes over has nothing to do there.
    pipeline = make_pipeline(("  - id: first\n", "  - id: first\n    ordering: timestamp\n"))
    few = [name for name in documents if name.startswith("1-") or int(name[2:]) < 5]
    fill(pipeline, few)
    stale, stopped_at = stop(pipeline, faults.CHUNK_PROCESSED, nth=3)

    check_overtaken("SIGSTOP of an ordered run, overtaken", pipeline, few, stale, stopped_at)

"""Stop a run until its lease has run out and another has taken over: when it wakes up, it commits nothing more."""

from __future__ import annotations

import re
import signal
import time

import pytest

from pipestream import faults
from pipestream.testing.length import by_length

pytestmark = pytest.mark.stack

# Behind its last point a run has nothing left to commit, so waking up late does not matter there.
POINTS = [point for point in faults.POINTS if point != faults.RANGES_ENTERED]
GIVES_UP = re.compile(r"^(LeaseLost|RangeFailed|LedgerConflict): ", re.MULTILINE)


@pytest.fixture
def wake(pipeline, topic):
    """Continue a stopped run, and make sure that it ends as stale and leaves everything as it is."""

    def standing():
        return pipeline.group_offsets(topic), pipeline.entries(topic)

    def wake(stale):
        before = standing()
        stale.send_signal(signal.SIGCONT)
        assert stale.wait() != 0, stale.log
        assert GIVES_UP.search(stale.log), stale.log
        assert standing() == before, stale.log

    return wake


@pytest.mark.parametrize("point", by_length([faults.PLAN_WRITTEN], POINTS))
def test_a_run_that_was_overtaken_commits_nothing(
    pipeline, documents, fill, check, start_drain, drain_when_free, wake, point
):
    fill(pipeline, documents)
    stale = start_drain(pipeline, "stale", f"{point}=stop")
    stale.wait_until_stopped()
    stopped_at = time.monotonic()

    drain_when_free(pipeline, "new")
    taken_over_at = time.monotonic() - stopped_at
    wake(stale)

    check(f"SIGSTOP at {point}, overtaken", pipeline, documents, time.monotonic() - taken_over_at)


@pytest.mark.parametrize("point", by_length([faults.CHUNK_PRODUCED], POINTS))
def test_a_run_that_was_overtaken_by_a_shorter_one_commits_nothing(
    pipeline, documents, fill, check, start_drain, drain_when_free, wake, point
):
    fill(pipeline, documents)
    stale = start_drain(pipeline, "stale", f"{point}=stop")
    stale.wait_until_stopped()
    stopped_at = time.monotonic()

    # Ends in the middle of the stale run's ranges.
    drain_when_free(pipeline, "new", budget=24)
    wake(stale)
    drain_when_free(pipeline, "last")

    check(f"SIGSTOP at {point}, overtaken half way", pipeline, documents, stopped_at)


def test_a_run_that_was_overtaken_by_a_longer_one_commits_nothing(
    pipeline, documents, fill, check, start_drain, drain_when_free, wake
):
    first = [name for name in documents if int(name[2:]) < 15]
    fill(pipeline, first)
    stale = start_drain(pipeline, "stale", f"{faults.CHUNK_PROCESSED}=stop@2")
    stale.wait_until_stopped()
    stopped_at = time.monotonic()
    fill(pipeline, [name for name in documents if name not in first])

    # Takes the records that came later as well.
    drain_when_free(pipeline, "new")
    taken_over_at = time.monotonic() - stopped_at
    wake(stale)

    check("SIGSTOP, overtaken by a longer range", pipeline, documents, time.monotonic() - taken_over_at)


def test_an_ordered_run_that_was_overtaken_commits_nothing(
    make_pipeline, documents, fill, check, start_drain, drain_when_free, wake
):
    # The first partition is done when the run is stopped, so the one that takes over has nothing to do there.
    pipeline = make_pipeline(("  - id: first\n", "  - id: first\n    ordering: timestamp\n"))
    few = [name for name in documents if name.startswith("1-") or int(name[2:]) < 5]
    fill(pipeline, few)
    stale = start_drain(pipeline, "stale", f"{faults.CHUNK_PROCESSED}=stop@3")
    stale.wait_until_stopped()
    stopped_at = time.monotonic()

    drain_when_free(pipeline, "new")
    taken_over_at = time.monotonic() - stopped_at
    wake(stale)

    check("SIGSTOP of an ordered run, overtaken", pipeline, few, time.monotonic() - taken_over_at)

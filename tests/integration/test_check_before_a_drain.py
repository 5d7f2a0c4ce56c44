"""What is found out about a topic before anything as slow as Spark is started for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipestream.drain.backfill import Backfill
from pipestream.drain.check import find_reason_to_skip
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import TopicReplaced
from pipestream.leases import DesiredState, TopicMode
from pipestream.leases.none import NoLeaseStore

pytestmark = pytest.mark.stack

RUN = "pipestream_sample/manual__1/drain_enrich"
DAY = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def live(pipeline, topic):
    """A run over everything that waits."""
    return DrainRequest(pipeline.graph, topic, RUN, 1_000)


@pytest.fixture
def asked(pipeline, topic):
    """The day's records, asked for by a backfill."""
    backfill = Backfill("day", since=DAY, until=DAY + timedelta(days=1))
    return DrainRequest(pipeline.graph, topic, RUN, 1_000, backfill)


def test_a_topic_with_something_waiting_and_nobody_on_it_is_drained(pipeline, topic, live):
    pipeline.send(topic, ["a"])

    assert find_reason_to_skip(pipeline.settings, live) == ""


def test_a_stopped_topic_is_skipped_whatever_waits(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.set_desired(topic, DesiredState(started=False))

    reason = find_reason_to_skip(pipeline.settings, live)

    assert reason == f"{topic} is stopped: `pipestream leases set {topic} --started`"


def test_a_topic_that_streams_is_skipped_whatever_waits(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.set_desired(topic, DesiredState(mode=TopicMode.STREAMING))

    reason = find_reason_to_skip(pipeline.settings, live)

    assert reason.startswith(f"{topic} is in streaming mode")
    assert f"`pipestream leases set {topic} --mode batch`" in reason


def test_a_batch_run_skips_a_topic_that_streams_and_says_so(pipeline, topic, leases):
    pipeline.send(topic, ["a"])
    leases.set_desired(topic, DesiredState(mode=TopicMode.STREAMING))

    report = pipeline.drain(topic, RUN)

    assert report.status == "skipped"
    assert "is in streaming mode" in report.reason
    assert pipeline.entries(topic) == []


def test_a_backfill_of_a_topic_that_streams_is_drained(pipeline, asked, leases):
    pipeline.send(asked.topic, ["a", "b"], timestamp=DAY)
    leases.set_desired(asked.topic, DesiredState(mode=TopicMode.STREAMING))

    assert find_reason_to_skip(pipeline.settings, asked) == ""
    report = run_drain(asked, pipeline.settings, LocalRunner(pipeline.settings), leases=leases)
    assert (report.status, report.records) == ("drained", 2)


def test_an_empty_topic_is_skipped(pipeline, topic, live):
    assert find_reason_to_skip(pipeline.settings, live) == f"nothing to drain in {topic}"


def test_a_leased_topic_is_skipped_with_its_holder_and_the_end_of_the_lease(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.acquire(live.lease_name, 0, "other-run@x:1", 600)
    until = next(slot.until for slot in leases.assignments(live.lease_name))

    reason = find_reason_to_skip(pipeline.settings, live)

    assert reason == f"{topic} is leased by other-run@x:1 until {until:%Y-%m-%d %H:%M:%S %Z}"


def test_a_topic_with_a_free_slot_is_drained(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.set_desired(topic, DesiredState(replicas=2))
    leases.acquire(live.lease_name, 0, "other-run@x:1", 600)

    assert find_reason_to_skip(pipeline.settings, live) == ""


def test_a_topic_that_an_earlier_try_of_the_run_still_holds_is_drained(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.acquire(live.lease_name, 0, f"{RUN}@x:1", 600)

    assert find_reason_to_skip(pipeline.settings, live) == ""


def test_a_topic_whose_slots_are_all_held_is_skipped_with_every_holder(pipeline, topic, live, leases):
    pipeline.send(topic, ["a"])
    leases.set_desired(topic, DesiredState(replicas=2))
    for slot, holder in enumerate(("run-a@x:1", "run-b@x:1")):
        leases.acquire(live.lease_name, slot, holder, 600)

    reason = find_reason_to_skip(pipeline.settings, live)

    assert reason.startswith(f"{topic} is leased by run-a@x:1 until ")
    assert ", run-b@x:1 until " in reason


def test_a_backfill_is_started_while_anything_of_it_is_left(pipeline, asked):
    pipeline.send(asked.topic, ["a", "b"], timestamp=DAY)

    assert find_reason_to_skip(pipeline.settings, asked) == ""


def test_a_finished_backfill_is_skipped_and_its_lane_named(pipeline, asked, unique):
    pipeline.send(asked.topic, ["a", "b"], timestamp=DAY)
    run_drain(asked, pipeline.settings, LocalRunner(pipeline.settings), leases=NoLeaseStore())
    pipeline.send(asked.topic, ["late"], timestamp=DAY)

    reason = find_reason_to_skip(pipeline.settings, asked)

    assert reason.startswith(f"backfill day of intake.{unique} is finished: it covered intake.{unique}[0]")
    assert f"see lane {unique}@day of the ledger" in reason


def test_a_backfill_of_a_time_without_records_is_skipped(pipeline, asked, unique):
    pipeline.send(asked.topic, ["before"], timestamp=DAY - timedelta(hours=1))
    pipeline.send(asked.topic, ["after"], timestamp=DAY + timedelta(days=1))

    reason = find_reason_to_skip(pipeline.settings, asked)

    assert reason == f"intake.{unique} has no records of that time: backfill day covers nothing"


def test_a_backfill_of_a_stopped_topic_is_skipped(pipeline, asked, leases):
    pipeline.send(asked.topic, ["a"], timestamp=DAY)
    leases.set_desired(asked.topic, DesiredState(started=False))

    assert f"{asked.topic} is stopped" in find_reason_to_skip(pipeline.settings, asked)


def test_a_backfill_that_another_run_holds_is_started_and_waits_there(pipeline, asked, leases):
    pipeline.send(asked.topic, ["a"], timestamp=DAY)
    leases.acquire(asked.lease_name, 0, "other-run@x:1", 600)

    assert find_reason_to_skip(pipeline.settings, asked) == ""


def test_a_backfill_of_a_topic_that_was_made_again_is_refused(pipeline, asked):
    pipeline.ledger.begin(asked.lane.name, asked.topic, "the id of the topic from before", {0: 0, 1: 0}, [])

    with pytest.raises(TopicReplaced):
        find_reason_to_skip(pipeline.settings, asked)

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from pipestream.drain.backfill import Backfill
from pipestream.drain.local import LocalSpread
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import TopicReplaced
from pipestream.leases import Assignment, DesiredState, open_lease_store
from pipestream.leases.none import NoLeaseStore
from pipestream_airflow.drain_check import find_reason_to_skip_backfill, reason_to_skip

TOPIC = "pipestream.main.enrich"
RUN = "pipestream_sample/manual__1/drain_enrich"


class HeldStore(NoLeaseStore):
    """A store in which others hold slots."""

    def __init__(self, *holders: str, until: datetime | None = None) -> None:
        super().__init__()
        self._slots = [Assignment(TOPIC, slot, holder, until=until) for slot, holder in enumerate(holders)]

    def assignments(self, topic: str | None = None) -> list[Assignment]:
        assert topic == TOPIC
        return self._slots


def refuse_to_count() -> int:
    raise AssertionError("asked the broker though the answer was known")


def test_a_topic_with_something_waiting_and_nobody_on_it_is_drained():
    assert reason_to_skip(TOPIC, RUN, NoLeaseStore(), lambda: 1) is None


def test_a_stopped_topic_is_skipped_before_the_broker_is_asked():
    store = NoLeaseStore()
    store.set_desired(TOPIC, DesiredState(started=False))

    assert reason_to_skip(TOPIC, RUN, store, refuse_to_count) == f"{TOPIC} is stopped by the operator"


def test_an_empty_topic_is_skipped():
    assert reason_to_skip(TOPIC, RUN, NoLeaseStore(), lambda: 0) == f"nothing to drain in {TOPIC}"


def test_a_leased_topic_is_skipped_and_the_holder_named():
    assert reason_to_skip(TOPIC, RUN, HeldStore("other-run"), lambda: 5) == f"{TOPIC} is leased by other-run"


def test_the_end_of_the_lease_is_named_where_it_is_known():
    store = HeldStore("other-run", until=datetime(2026, 11, 16, 3, 4, 5, tzinfo=UTC))

    reason = reason_to_skip(TOPIC, RUN, store, lambda: 5)

    assert reason == f"{TOPIC} is leased by other-run until 2026-11-16 03:04:05 UTC"


@pytest.mark.parametrize(
    "holders",
    [
        pytest.param(("other-run", ""), id="a slot is free"),
        pytest.param((f"{RUN}@host:17",), id="its own earlier try still holds it"),
        pytest.param(("", ""), id="all slots are free"),
        pytest.param((), id="no slot is known"),
    ],
)
def test_a_topic_that_could_be_leased_is_drained(holders):
    assert reason_to_skip(TOPIC, RUN, HeldStore(*holders), lambda: 5) is None


def test_a_topic_whose_slots_are_all_held_is_skipped_with_every_holder():
    reason = reason_to_skip(TOPIC, RUN, HeldStore("run-a", "run-b"), lambda: 5)

    assert reason == f"{TOPIC} is leased by run-a, run-b"


DAY = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def asked(pipeline, unique):
    """The day's records, asked for by a backfill."""
    backfill = Backfill("day", since=DAY, until=DAY + timedelta(days=1))
    return DrainRequest(pipeline.graph, f"intake.{unique}", RUN, 1_000, backfill)


@pytest.mark.stack
def test_a_backfill_is_started_while_anything_of_it_is_left(pipeline, asked):
    pipeline.send(asked.topic, ["a", "b"], timestamp=DAY)

    assert find_reason_to_skip_backfill(pipeline.settings, asked) is None


@pytest.mark.stack
def test_a_finished_backfill_is_skipped_and_its_lane_named(pipeline, asked, unique):
    pipeline.send(asked.topic, ["a", "b"], timestamp=DAY)
    run_drain(asked, pipeline.settings, LocalSpread(pipeline.settings), leases=NoLeaseStore())
    pipeline.send(asked.topic, ["late"], timestamp=DAY)

    reason = find_reason_to_skip_backfill(pipeline.settings, asked)

    assert reason.startswith(f"backfill day of intake.{unique} is finished: it covered intake.{unique}[0]")
    assert f"see lane {unique}@day of the ledger" in reason


@pytest.mark.stack
def test_a_backfill_of_a_time_without_records_is_skipped(pipeline, asked, unique):
    pipeline.send(asked.topic, ["before"], timestamp=DAY - timedelta(hours=1))
    pipeline.send(asked.topic, ["after"], timestamp=DAY + timedelta(days=1))

    reason = find_reason_to_skip_backfill(pipeline.settings, asked)

    assert reason == f"intake.{unique} has no records of that time: backfill day covers nothing"


@pytest.mark.stack
def test_a_backfill_of_a_stopped_topic_is_skipped(pipeline, asked, unique):
    pipeline.send(asked.topic, ["a"], timestamp=DAY)
    with closing(open_lease_store(pipeline.settings)) as store:
        store.set_desired(asked.topic, DesiredState(started=False))

    assert find_reason_to_skip_backfill(pipeline.settings, asked) == f"intake.{unique} is stopped by the operator"


@pytest.mark.stack
def test_a_backfill_of_a_topic_that_was_made_again_is_refused(pipeline, asked):
    pipeline.ledger.begin(asked.lane, asked.topic, "the id of the topic from before", {0: 0, 1: 0}, [])

    with pytest.raises(TopicReplaced):
        find_reason_to_skip_backfill(pipeline.settings, asked)

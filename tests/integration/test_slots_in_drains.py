"""How a run obeys what is wanted of a topic: started or stopped, and how many slots."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from zlib import crc32

import psycopg
import pytest

from pipestream.drain.check import find_lag
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import (
    LeaseLost,
    LeaseStoreUnavailable,
    OffsetsExpired,
    TasksFailed,
    TerminalError,
    TopicReplaced,
)
from pipestream.leases import DesiredState
from pipestream.leases.names import lease_name
from pipestream.topics.admin import TopicAdmin
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.retention import delete_before

pytestmark = pytest.mark.stack

# Where a run begins depends on its name.
FROM_SLOT_0 = next(name for name in map("run-{}".format, range(100)) if crc32(name.encode()) % 2 == 0)


def test_a_run_drains_every_free_slot_and_leaves_the_taken_ones_to_their_holders(pipeline, topic, second, leases):
    pipeline.send(topic, ["a1", "a2"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))
    other = leases.acquire(lease_name(topic, pipeline.graph.graph_id), 1, "run-x@elsewhere:1", 600)

    first = pipeline.drain(topic, "run-1")
    leases.release(other)
    rest = pipeline.drain(topic, "run-2")

    assert (first.records, rest.records) == (2, 1)
    assert "run-x@elsewhere:1" in first.reason
    assert pipeline.doc_ids(second) == {"a1": 1, "a2": 1, "b1": 1}
    pipeline.check_ledger_tiles(topic)


def test_a_run_drains_no_more_slots_than_it_may_and_the_next_runs_drain_the_others(pipeline, topic, second, leases):
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.settings = pipeline.settings.model_copy(update={"max_slots": 1})

    first = pipeline.drain(topic, "run-1")
    rest = pipeline.drain(topic, "run-1-again")

    assert (first.records, rest.records) == (1, 1)
    assert "left to the next run" in first.reason
    assert pipeline.doc_ids(second) == {"a1": 1, "b1": 1}


def test_every_slot_has_its_turn_though_the_others_never_run_dry(pipeline, topic, second, leases):
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.settings = pipeline.settings.model_copy(update={"max_slots": 1})
    for run in range(5):  # the last of them begins at the other slot than those before it
        for partition in range(2):
            pipeline.send(topic, [f"{partition}-{run}"], partition=partition)
        pipeline.drain(topic, f"run-{run}", budget=1)

    drained = {doc_id.partition("-")[0] for doc_id in pipeline.doc_ids(second)}
    assert drained == {"0", "1"}


def test_new_slots_are_filled_at_the_next_run_after_scaling_up(pipeline, topic, leases):
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    pipeline.drain(topic, "run-1")
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.send(topic, ["a2"], partition=0)
    pipeline.send(topic, ["b2"], partition=1)

    pipeline.drain(topic, "run-2")

    slots = {plan.slot: [each.partition for each in plan.ranges] for plan in pipeline.ledger.plans(run_id="run-2")}
    assert slots == {0: [0], 1: [1]}
    pipeline.check_ledger_tiles(topic)


def test_scaling_down_in_the_middle_of_a_run_gives_up_the_highest_slot(pipeline, topic, second, leases, monkeypatch):
    pipeline.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))
    when_a_slot_is_taken(leases, monkeypatch, lambda: leases.set_desired(topic, DesiredState(replicas=1)))

    first = one_slot_at_a_time(pipeline, leases, topic)
    assert (first.status, first.records) == ("empty", 0)

    pipeline.drain(topic, "run-1")
    assert pipeline.doc_ids(second) == {"b1": 1}


def test_a_topic_that_is_stopped_is_skipped_and_told_how_to_start(pipeline, topic, second, leases):
    pipeline.send(topic, ["a1"])
    leases.set_desired(topic, DesiredState(started=False))

    report = pipeline.drain(topic, "run-1")

    assert (report.status, report.records) == ("skipped", 0)
    assert f"{topic} is stopped" in report.reason
    assert f"pipestream leases set {topic} --started" in report.reason
    assert pipeline.doc_ids(second) == {}


def test_stopping_in_the_middle_of_a_run_leaves_the_slots_that_have_not_begun(
    pipeline, topic, second, leases, monkeypatch
):
    pipeline.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))
    stopped = DesiredState(started=False, replicas=2)
    when_a_slot_is_taken(leases, monkeypatch, lambda: leases.set_desired(topic, stopped))

    report = one_slot_at_a_time(pipeline, leases, topic)

    assert (report.status, report.records) == ("empty", 0)
    assert "is stopped" in report.reason
    assert pipeline.doc_ids(second).total() == 0


def one_slot_at_a_time(pipeline, leases, topic):
    """Drain with a single thread, from slot 0 on: it tries the next slot when the one before it is empty."""
    settings = pipeline.settings.model_copy(update={"max_slots": 1})
    request = DrainRequest(pipeline.graph, topic, FROM_SLOT_0, 1_000)
    return run_drain(request, settings, LocalRunner(settings), leases=leases)


def when_a_slot_is_taken(leases, monkeypatch, act):
    acquire = leases.acquire

    def acquire_and_act(*arguments):
        lease = acquire(*arguments)
        act()
        return lease

    monkeypatch.setattr(leases, "acquire", acquire_and_act)


@pytest.fixture
def meeting(graph_text, settings, tmp_path):
    """A pipeline whose first node passes documents on when two of them are there at the same moment."""
    module = "pipestream_testing.steps:pass_on\n  - id: second"
    config = f"pipestream_testing.modules:meeting\n    config: {{folder: {tmp_path}, parties: 2}}\n  - id: second"
    assert module in graph_text
    file = tmp_path / "meeting.yaml"
    file.write_text(graph_text.replace(module, config))
    made = Pipeline(settings, file)
    made.create_topics()
    return made


def test_the_slots_of_a_run_are_at_work_at_the_same_moment(meeting, topic, second, leases):
    meeting.send(topic, ["a1"], partition=0)
    meeting.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))

    report = meeting.drain(topic, "run-1")

    assert (report.records, report.dead_letters, report.ranges) == (2, 0, 2)
    assert meeting.doc_ids(second) == {"a1": 1, "b1": 1}
    meeting.check_ledger_tiles(topic)


def test_two_runs_hold_different_slots_at_the_same_moment(meeting, topic, second, leases):
    meeting.send(topic, ["a1"], partition=0)
    meeting.send(topic, ["b1"], partition=1)
    leases.set_desired(topic, DesiredState(replicas=2))
    meeting.settings = meeting.settings.model_copy(update={"max_slots": 1})

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(partial(meeting.drain, topic), ["run-a", "run-b"]))

    assert [(report.records, report.dead_letters) for report in reports] == [(1, 0), (1, 0)]
    assert {plan.slot for run in ("run-a", "run-b") for plan in meeting.ledger.plans(run_id=run)} == {0, 1}
    assert meeting.doc_ids(second) == {"a1": 1, "b1": 1}
    meeting.check_ledger_tiles(topic)


def test_a_slot_that_fails_does_not_keep_the_others_waiting(pipeline, topic, second, leases):
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.send(topic, ["a1", "a2"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    pipeline.drain(topic, "run-1", budget=1)
    delete_before(pipeline.settings, topic, 0, 2)
    pipeline.send(topic, ["b2"], partition=1)

    with pytest.raises(OffsetsExpired):
        pipeline.drain(topic, "run-2")

    assert pipeline.doc_ids(second) == {"a1": 1, "b1": 1, "b2": 1}


def test_what_needs_a_person_is_not_hidden_by_a_lease_store_that_fails(pipeline, topic, leases, monkeypatch):
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    acquire = leases.acquire

    def acquire_the_first(name, slot, *rest):
        if slot:
            raise LeaseStoreUnavailable("nobody answers")
        return acquire(name, slot, *rest)

    def fail_for_good(_tasks):
        raise TerminalError("mend me")

    monkeypatch.setattr(leases, "acquire", acquire_the_first)
    request = DrainRequest(pipeline.graph, topic, "run-1", 1_000)
    with pytest.raises(TerminalError, match="mend me"):
        run_drain(request, pipeline.settings, fail_for_good, leases=leases)


def lose_the_lease(pipeline, lease_name, slot):
    with psycopg.connect(pipeline.settings.postgres_dsn.get_secret_value()) as connection:
        connection.execute("DELETE FROM leases WHERE pipeline_id = %s AND slot = %s", (lease_name, slot))


def test_a_lease_that_is_lost_stops_its_own_slot_and_no_other(pipeline, topic, second, leases):
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    request = DrainRequest(pipeline.graph, topic, "run-1", 1_000)
    settings = pipeline.settings.model_copy(update={"lease_ttl_s": 3.0})
    here = LocalRunner(settings)
    lost = []
    is_lost = threading.Event()

    def work(tasks):
        if tasks[0].slot == 0:
            lose_the_lease(pipeline, request.lease_name, 0)
        assert is_lost.wait(120)
        return here(tasks)

    def hear(error):
        lost.append(error.slot)
        here.cancel(error)
        is_lost.set()

    with pytest.raises(LeaseLost):
        run_drain(request, settings, work, leases=leases, on_lease_lost=hear)

    assert lost == [0]
    assert pipeline.doc_ids(second) == {"b1": 1}


def test_a_run_that_loses_a_lease_begins_no_other_slot(pipeline, topic, second, leases):
    leases.set_desired(topic, DesiredState(replicas=2))
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.send(topic, ["b1"], partition=1)
    request = DrainRequest(pipeline.graph, topic, "run-1", 1_000)
    begun = []
    is_lost = threading.Event()

    def lose_it(tasks):
        begun.append(tasks[0].slot)
        lose_the_lease(pipeline, request.lease_name, tasks[0].slot)
        assert is_lost.wait(120)
        raise TasksFailed("they were cancelled")

    settings = pipeline.settings.model_copy(update={"lease_ttl_s": 3.0, "max_slots": 1})
    with pytest.raises(LeaseLost):
        run_drain(request, settings, lose_it, leases=leases, on_lease_lost=lambda _: is_lost.set())

    assert len(begun) == 1


def test_what_retention_deletes_from_a_partition_that_was_empty_at_the_first_run_is_missed(pipeline, topic, second):
    pipeline.send(topic, ["a1"], partition=0)
    pipeline.drain(topic, "run-1")
    pipeline.send(topic, ["b1", "b2", "b3"], partition=1)
    delete_before(pipeline.settings, topic, 1, 2)

    with pytest.raises(OffsetsExpired, match=r"\[1\]: offsets 0\.\.1 were deleted"):
        pipeline.drain(topic, "run-2")


def test_the_check_before_a_run_notices_a_topic_that_was_made_again(pipeline, topic):
    pipeline.send(topic, ["a1", "a2", "a3"])
    pipeline.drain(topic, "run-1")
    admin = TopicAdmin(pipeline.settings)
    admin.delete([topic])
    pipeline.create_topics()
    pipeline.send(topic, ["b1"])

    with pytest.raises(TopicReplaced):
        find_lag(pipeline.settings, pipeline.graph, topic)

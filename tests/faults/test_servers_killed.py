"""Kill a server in the middle of a drain and start it again: the drain goes through, or the next one puts it right."""

from __future__ import annotations

import time

import pytest

from pipestream import faults
from pipestream_testing.length import by_length

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(breakable_settings):
    """These tests break servers, so they have some of their own."""
    return breakable_settings


@pytest.fixture
def finish(drain_when_free):
    """Wait for a drain that met an outage, and run another one if it gave up."""

    def finish(pipeline, met):
        # 2 would mean that a person has to look; an outage passes.
        assert met.wait() in (0, 1), met.log
        drain_when_free(pipeline, "next")

    return finish


@pytest.fixture
def kill_during(breakable_stack, documents, fill, start_drain, gate):
    """Hold a drain at a point and kill a server meanwhile; return the drain, the server, and when it was killed."""

    def kill(name, pipeline, point, nth=1):
        fill(pipeline, documents)
        drain = start_drain(pipeline, "run-1", gate.at(point, nth))
        drain.wait_for(gate)
        server = breakable_stack.server(name)
        server.kill()
        return drain, server, time.monotonic()

    return kill


# In a transaction, before it, and before the drain has spoken to Kafka at all.
KAFKA_POINTS = [
    (faults.CHUNK_PRODUCED, 2),
    (faults.CHUNK_PROCESSED, 1),
    (faults.LEASE_ACQUIRED, 1),
    (faults.RECONCILED, 1),
    (faults.PLAN_WRITTEN, 1),
    (faults.CHUNK_COMMITTED, 3),
    (faults.RANGES_DRAINED, 1),
]


@pytest.mark.parametrize(("point", "nth"), by_length(KAFKA_POINTS[:1], KAFKA_POINTS))
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    pipeline, documents, check, kill_during, finish, gate, point, nth
):
    drain, broker, killed_at = kill_during("kafka", pipeline, point, nth)
    gate.open()
    broker.start()

    finish(pipeline, drain)

    check(f"Kafka killed and restarted at {point}", pipeline, documents, killed_at)


LEASE_STORES = [("postgres", "sql"), ("consul", "consul")]


@pytest.mark.parametrize("point", by_length([faults.CHUNK_PRODUCED], faults.POINTS))
@pytest.mark.parametrize(("server", "leases"), LEASE_STORES)
def test_a_drain_survives_a_restart_of_the_server_that_keeps_its_lease(
    make_pipeline, documents, check, kill_during, finish, gate, server, leases, point
):
    pipeline = make_pipeline(leases=leases)
    drain, store, killed_at = kill_during(server, pipeline, point)
    store.start()
    gate.open()

    finish(pipeline, drain)

    check(f"{server} killed and restarted", pipeline, documents, killed_at)


# Not in every test run: the lease that could not be given back has to run out.
@pytest.mark.slow
@pytest.mark.parametrize("point", [faults.LEASE_ACQUIRED, faults.CHUNK_PRODUCED, faults.RANGES_ENTERED])
@pytest.mark.parametrize(("server", "leases"), LEASE_STORES)
def test_a_drain_that_runs_while_the_server_of_its_lease_is_gone_loses_nothing(
    make_pipeline, documents, check, kill_during, finish, gate, server, leases, point
):
    pipeline = make_pipeline(leases=leases)
    drain, store, killed_at = kill_during(server, pipeline, point)
    gate.open()
    # Besides the renewals, that is where a drain that has its lease speaks to the server.
    drain.wait_until(lambda: "not released" in drain.log)
    store.start()

    finish(pipeline, drain)

    check(f"{server} gone while a drain goes on", pipeline, documents, killed_at)


@pytest.mark.parametrize(("server", "leases"), by_length(LEASE_STORES[:1], LEASE_STORES))
def test_a_drain_stops_itself_when_its_lease_cannot_be_renewed(
    make_pipeline, documents, check, kill_during, drain_when_free, gate, topic, server, leases
):
    pipeline = make_pipeline(leases=leases)
    drain, store, killed_at = kill_during(server, pipeline, faults.CHUNK_COMMITTED, 2)
    drain.wait_until(lambda: "the lease was lost" in drain.log)
    gate.open()

    assert drain.wait() == 1, drain.log
    assert "renewals have failed for" in drain.log
    assert pipeline.entries(topic) == []
    # The task that was held stopped where it was, after its first or its second chunk. The other may have ended before.
    assert {10, 20} & set(pipeline.group_offsets(topic).values())
    store.start()
    drain_when_free(pipeline, "next")

    check(f"{server} gone for longer than the lease", pipeline, documents, killed_at)

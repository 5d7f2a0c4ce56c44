"""Kill a server in the middle of a drain and start it again: the drain goes through, or the next one puts it right."""

from __future__ import annotations

import time

import pytest

from pipestream import faults
from pipestream.testing.length import by_length

pytestmark = pytest.mark.stack


@pytest.fixture
def settings(breakable_settings):
    """These tests break servers, so they have some of their own."""
    return breakable_settings


@pytest.fixture
def finish(start_drain, drain_when_free):
    """Wait for a drain that met an outage, and run another one if it gave up."""

    def finish(pipeline, met):
        # 2 would mean that a person has to look; an outage passes.
        assert met.wait() in (0, 1), met.log
        drain_when_free(pipeline, "next")

    return finish


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
    breakable_stack, pipeline, documents, fill, check, start_drain, finish, gate, point, nth
):
    fill(pipeline, documents)
    drain = start_drain(pipeline, "run-1", gate.at(point, nth))
    drain.wait_for(gate)
    broker = breakable_stack.server("kafka")
    broker.kill()
    killed_at = time.monotonic()
    gate.open()
    broker.start()

    finish(pipeline, drain)

    check(f"Kafka killed and restarted at {point}", pipeline, documents, killed_at)


@pytest.mark.parametrize("point", by_length([faults.CHUNK_PRODUCED], faults.POINTS))
def test_a_drain_survives_a_restart_of_consul(
    breakable_stack, make_pipeline, documents, fill, check, start_drain, finish, gate, point
):
    pipeline = make_pipeline(leases="consul")
    fill(pipeline, documents)
    drain = start_drain(pipeline, "run-1", gate.at(point))
    drain.wait_for(gate)
    consul = breakable_stack.server("consul")
    consul.kill()
    killed_at = time.monotonic()
    consul.start()
    gate.open()

    finish(pipeline, drain)

    check("Consul killed and restarted", pipeline, documents, killed_at)


@pytest.mark.parametrize("point", by_length([faults.CHUNK_PRODUCED], faults.POINTS))
def test_a_drain_survives_a_restart_of_postgres(
    breakable_stack, pipeline, documents, fill, check, start_drain, finish, gate, point
):
    fill(pipeline, documents)
    drain = start_drain(pipeline, "run-1", gate.at(point))
    drain.wait_for(gate)
    postgres = breakable_stack.server("postgres")
    postgres.kill()
    killed_at = time.monotonic()
    postgres.start()
    gate.open()

    finish(pipeline, drain)

    check("PostgreSQL killed and restarted", pipeline, documents, killed_at)


@pytest.mark.parametrize(
    ("server", "leases"), by_length([("postgres", "sql")], [("postgres", "sql"), ("consul", "consul")])
)
def test_a_drain_stops_itself_when_its_lease_cannot_be_renewed(
    breakable_stack, make_pipeline, documents, fill, check, start_drain, drain_when_free, gate, topic, server, leases
):
    pipeline = make_pipeline(leases=leases)
    fill(pipeline, documents)
    drain = start_drain(pipeline, "run-1", gate.at(faults.CHUNK_COMMITTED, 2))
    drain.wait_for(gate)
    store = breakable_stack.server(server)
    store.kill()
    killed_at = time.monotonic()
    drain.wait_until(lambda: "the lease was lost" in drain.log)
    gate.open()

    assert drain.wait() == 1, drain.log
    assert "renewals have failed for" in drain.log
    assert pipeline.entries(topic) == []
    # It stopped where it was, in the middle of its first range.
    assert pipeline.group_offsets(topic) == {0: 20}
    store.start()
    drain_when_free(pipeline, "next")

    check(f"{server} gone for longer than the lease", pipeline, documents, killed_at)

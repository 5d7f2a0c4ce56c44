"""Drains with leases in Consul while PostgreSQL, which has the versions of graphs, is away and after it is back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from pipestream.api.requests import run_request
from pipestream.deployment.versions import GraphVersions
from pipestream.drain.check import examine_topics, find_reason_to_skip
from pipestream.drain.request import DrainRequest

pytestmark = pytest.mark.stack

PAUSED = "is paused in the active version of the graph"


@pytest.fixture
def settings(breakable_stack, breakable_settings):
    """These tests break PostgreSQL, and drains need it for nothing but the versions of graphs."""
    address = breakable_stack.settings().consul_address
    return breakable_settings.model_copy(update={"leases": "consul", "consul_address": address})


@pytest.fixture
def second(unique):
    """The topic behind the first node."""
    return f"pipestream.{unique}.second"


def paused(graph):
    return replace(graph, datasources=tuple(replace(each, paused=True) for each in graph.datasources))


def test_a_drain_goes_by_the_file_while_postgresql_is_away_and_by_the_version_after_it(
    breakable_stack, pipeline, topic, second, caplog
):
    with closing(GraphVersions(pipeline.settings)) as versions:
        versions.save(paused(pipeline.graph), applied_by="test")
    pipeline.send(topic, ["a"])
    request = DrainRequest(pipeline.graph, topic, "run-1", 100)
    postgres = breakable_stack.server("postgres")

    postgres.kill()
    try:
        (finding,) = examine_topics(pipeline.settings, [request])
        reason = find_reason_to_skip(pipeline.settings, request)
        caplog.clear()
        report = run_request(request, pipeline.settings)
        warnings = [each.getMessage() for each in caplog.records if "its file alone decides" in each.getMessage()]
    finally:
        postgres.start()
    later = run_request(replace(request, run_id="run-2"), pipeline.settings)

    assert (finding.reason, finding.problem, reason) == ("", "", "")
    assert (report.status, pipeline.doc_ids(second)) == ("drained", {"a": 1})
    assert len(warnings) == 1
    assert "PostgreSQL does not answer" in warnings[0]
    assert (later.status, PAUSED in later.reason) == ("skipped", True)


def test_a_pause_in_the_file_holds_while_postgresql_is_away(breakable_stack, pipeline, topic, second):
    pipeline.send(topic, ["a"])
    request = DrainRequest(paused(pipeline.graph), topic, "run-1", 100)
    postgres = breakable_stack.server("postgres")

    postgres.kill()
    try:
        report = run_request(request, pipeline.settings)
    finally:
        postgres.start()

    assert (report.status, pipeline.doc_ids(second)) == ("skipped", {})

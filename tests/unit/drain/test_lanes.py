"""The names of a lane are in ledgers, Kafka groups and lease stores that exist, so they stay as they are."""

from __future__ import annotations

import pytest

from pipestream.drain.backfill import Backfill
from pipestream.drain.request import DrainRequest
from pipestream.graph.model import Graph

GRAPH = Graph("sample", "main", ())
LIVE = DrainRequest(GRAPH, "intake.files", "run-1", 10)
AGAIN = DrainRequest(GRAPH, "intake.files", "run-1", 10, Backfill("march", offsets={0: (0, 5)}, doc_ids=("a",)))


@pytest.mark.parametrize(
    ("request_", "name", "group", "plan_id"),
    [
        (LIVE, "sample", "pipestream.main.sample", "run-1|intake.files|2"),
        (AGAIN, "sample@march", "pipestream.main.sample@march", "sample@march|intake.files"),
    ],
    ids=["live", "backfill"],
)
def test_a_lane_has_the_names_it_always_had(request_, name, group, plan_id):
    assert (request_.lane.name, request_.lane.group, request_.plan_id(2)) == (name, group, plan_id)


def test_a_live_run_leases_the_topic_in_the_lane_of_its_graph():
    assert LIVE.lease_name == "intake.files@sample"


def test_a_backfill_leases_its_own_name():
    assert AGAIN.lease_name == "intake.files@sample@march"


def test_a_live_run_drains_every_document_in_as_many_slots_as_the_operator_wants():
    assert (LIVE.lane.is_live, LIVE.lane.doc_ids, LIVE.lane.slots(3)) == (True, (), 3)


def test_a_backfill_drains_its_documents_in_one_slot():
    assert (AGAIN.lane.is_live, AGAIN.lane.doc_ids, AGAIN.lane.slots(3)) == (False, ("a",), 1)

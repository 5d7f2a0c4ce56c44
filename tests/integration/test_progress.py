"""A gateway is told how far documents are while batch runs carry them from topic to topic."""

from __future__ import annotations

import pytest

from pipestream_testing.gateway import run_gateway
from pipestream_testing.pipeline import Pipeline

pytestmark = pytest.mark.stack
STATUSES = ("received", "processing", "completed")
GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes:
  - {id: first, module: "python:pipestream_testing.steps:pass_on"}
  - {id: second, module: "python:pipestream_testing.steps:fail_on_bad"}
  - {id: third, module: "python:pipestream_testing.steps:pass_on"}
edges: [{from: first, to: second}, {from: second, to: third}]
"""


@pytest.fixture
def graph_text(unique):
    return GRAPH.replace("UNIQUE", unique)


@pytest.fixture
def gateway():
    with run_gateway() as running:
        yield running


def test_a_gateway_is_told_of_three_hops_over_kafka_and_how_each_document_ended(pipeline, unique, gateway):
    told = Pipeline(pipeline.settings.model_copy(update={"gateway_url": gateway.url}), pipeline.graph_file)
    told.send(f"intake.{unique}", ["good", "bad"])

    for topic in (f"intake.{unique}", f"pipestream.{unique}.second", f"pipestream.{unique}.third"):
        told.drain(topic, f"run of {topic}")

    (end,) = told.read(f"pipestream.{unique}.happy-end")
    of_good = [body for path, body in gateway.told if path == f"/envelopes/{end.stream.stream_id}/progress"]
    assert [(body["current_actor"], body["status"]) for body in of_good] == [
        (node_id, status) for node_id in ("first", "second", "third") for status in STATUSES
    ]
    assert [body["progress_percent"] for body in of_good] == [
        3.33, 16.67, 33.33, 36.67, 50, 66.67, 70, 83.33, 100,
    ]  # fmt: skip
    finals = {body["id"]: body for path, body in gateway.told if path == f"/envelopes/{body['id']}/final"}
    assert len(finals) == 2
    assert finals.pop(end.stream.stream_id) == {"id": end.stream.stream_id, "status": "succeeded"}
    ((_, failed),) = finals.items()
    assert (failed["status"], failed["error"]) == ("failed", "bad is bad")

"""An engine times the steps that a drain times, in the same metrics."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from pipestream.accepted.topic import accepted_topic
from pipestream.objects.store import open_store
from pipestream_testing.engines import handoff

pytestmark = pytest.mark.stack
GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: first}]
nodes: [{id: first, module: "python:pipestream_testing.steps:pass_on"}]
"""


def timed(name, **labels):
    return REGISTRY.get_sample_value(f"pipestream_{name}_seconds_count", labels) or 0


def test_an_engine_times_the_fetch_of_a_document_the_objects_that_it_stores_and_its_transactions(live, unique):
    live.apply(GRAPH.replace("UNIQUE", unique))
    sent = {"queue": accepted_topic(live.settings.engine_name)}
    transactions = timed("queue_send_duration", **sent)
    reference = {"doc_id": "a", "object_key": f"documents/acme/{unique}/a.pb"}
    with open_store(live.settings.store_uri, live.settings) as store:
        document = handoff(unique, "a").stream.document
        store.put(reference["object_key"], document.SerializeToString(deterministic=True))

    assert live.hand_off(unique, "inline").accepted
    inline = timed("engine_hydration_duration", graph=unique)
    assert live.hand_off(unique, "a", stream={"document_ref": reference}).accepted

    # What ends is stored as an object of its own.
    assert timed("engine_dispatch_duration", graph=unique) == 2
    assert (inline, timed("engine_hydration_duration", graph=unique)) == (0, 1)
    assert timed("queue_send_duration", **sent) >= transactions + 2
    assert timed("runtime_execution_duration", queue=f"pipestream.{unique}.first") == 2

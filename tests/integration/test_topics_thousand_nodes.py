from __future__ import annotations

import time

import pytest

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.graph.load import check_graph_text
from pipestream.leases import open_lease_store
from pipestream.topics.admin import TopicAdmin

pytestmark = pytest.mark.stack


# Not a thousand in every test run: the broker that all tests share would have 2,000 topics more to keep and to delete.
@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_graph_of_many_nodes_is_applied(settings, unique, count):
    nodes = "".join(f"  - {{id: n{number}, module: 'python:json:loads', partitions: 1}}\n" for number in range(count))
    edges = "".join(f"  - {{from: n{number}, to: n{number + 1}}}\n" for number in range(count - 1))
    text = f"graph: g\ncluster: {unique}\nnodes:\n{nodes}edges:\n{edges}"
    settings = settings.model_copy(update={"kafka_timeout_s": 400})
    leases, versions, admin = open_lease_store(settings), GraphVersions(settings), TopicAdmin(settings)
    try:
        started = time.monotonic()
        graph = check_graph_text(text.encode(), "graph.yaml").require()
        applied = apply_graph(graph, settings, leases, versions, applied_by="ann")
        first_s = time.monotonic() - started
        started = time.monotonic()
        again = apply_graph(graph, settings, leases, versions, applied_by="ann")
        again_s = time.monotonic() - started
        print(f"{count:,} nodes, {len(applied.created)} topics: applied in {first_s:.1f} s, again in {again_s:.1f} s")

        # one topic per node but the first, dead letters for each, and the happy end
        assert len(applied.created) == (count - 1) + count + 1
        assert (again.created, again.version) == ((), applied.version)
        assert len(leases.topics()) == count - 1
    finally:
        admin.delete([name for name in admin.existing() if f".{unique}." in name])
        versions.close()
        leases.close()

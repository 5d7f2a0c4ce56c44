from __future__ import annotations

import time

import pytest

from pipestream.deployment.apply import apply_graph
from pipestream.deployment.versions import GraphVersions
from pipestream.graph.load import check_graph_text
from pipestream.leases import open_lease_store
from pipestream.topics.admin import TopicAdmin

pytestmark = pytest.mark.stack


def test_a_graph_of_a_thousand_nodes_is_applied(settings, unique):
    nodes = "".join(f"  - {{id: n{number}, module: 'python:json:loads', partitions: 1}}\n" for number in range(1_000))
    edges = "".join(f"  - {{from: n{number}, to: n{number + 1}}}\n" for number in range(999))
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
        print(f"1,000 nodes, {len(applied.created)} topics: applied in {first_s:.1f} s, again in {again_s:.1f} s")

        # one topic per node but the first, dead letters for each, and the happy end
        assert len(applied.created) == 999 + 1_000 + 1
        assert (again.created, again.version) == ((), applied.version)
        assert len(leases.topics()) == 999
    finally:
        admin.delete([name for name in admin.existing() if f".{unique}." in name])
        versions.close()
        leases.close()

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pipestream.graph.model import Datasource, Graph, Node
from pipestream.retention.policies import Policies, find_policies


def make_graph(graph_id: str = "g", *, node: float | None = None, source: float | None = None) -> Graph:
    return Graph(
        graph_id,
        "main",
        (Node("parse", "main", keep_documents_hours=node),),
        datasources=(Datasource("files", "acme", "parse", keep_documents_hours=source),),
    )


def hours(policies: Policies) -> tuple[float | None, float | None]:
    kept = (policies.keep("streams/acme/s-1/parse.pb"), policies.keep("documents/acme/files/d/abc.pb"))
    first, second = (each and each / timedelta(hours=1) for each in kept)
    return first, second


def test_what_no_graph_speaks_of_is_kept_forever():
    policies = find_policies([[make_graph()]])

    assert hours(policies) == (None, None)
    assert policies.roots() == []


def test_nodes_decide_on_outputs_and_datasources_on_uploads():
    policies = find_policies([[make_graph(node=2, source=24)]])

    assert hours(policies) == (2, 24)
    assert policies.roots() == ["streams", "segments", "documents", "blobs"]
    assert policies.keep("segments/acme/parse/2026111723/0b6f") == timedelta(hours=2)
    assert policies.keep(f"blobs/acme/files/d/{'a' * 64}") == timedelta(hours=24)


def test_where_graphs_share_a_name_the_longest_time_counts():
    assert hours(find_policies([[make_graph(node=2, source=24)], [make_graph("h", node=5, source=1)]])) == (5, 24)


def test_where_a_graph_that_shares_a_name_keeps_forever_all_do():
    assert hours(find_policies([[make_graph(node=2, source=24)], [make_graph("h")]])) == (None, None)


def test_the_active_version_decides_though_another_one_kept_for_longer():
    assert hours(find_policies([[make_graph(node=2), make_graph(node=9, source=9)]])) == (2, None)


def test_documents_of_a_node_that_was_removed_expire_as_its_last_version_says():
    removed = replace(make_graph(), nodes=(), datasources=())

    assert hours(find_policies([[removed, make_graph(node=2, source=24), make_graph(node=9)]])) == (2, 24)


@pytest.mark.parametrize(
    "key",
    [
        "streams/acme/s-1/other.pb",
        "streams/acme/s-1/parse/too-deep.pb",
        "streams/parse.pb",
        "documents/other/files/d/abc.pb",
        "documents/acme/others/d/abc.pb",
        "crash-markers/acme/files/0.json",
        "retention/unreferenced.json.gz",
    ],
)
def test_other_objects_are_never_touched(key):
    assert find_policies([[make_graph(node=1, source=1)]]).keep(key) is None


@pytest.mark.parametrize("file", ["parse.pb", "parse.2.pb", "parse.failed.pb", "parse.failed.3.pb"])
def test_all_documents_of_a_node_are_kept_equally_long(file):
    policies = find_policies([[make_graph(node=1)]])

    assert policies.keep(f"streams/acme/s-1/{file}") == timedelta(hours=1)

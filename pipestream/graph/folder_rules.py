"""Rules between graphs: those of one folder share a broker, a lease store and a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import Problem
from pipestream.graph.flow import destination_of
from pipestream.graph.topic_rules import collision_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.graph.model import Datasource, Graph, Node

# What two graphs on one datasource must agree on: it has one intake topic and one owner.
_SHARED = ("account_id", "partitions", "retention_hours", "paused")


def check_together(graphs: Sequence[tuple[str, Graph]]) -> list[Problem]:
    """Return the problems between graphs that are valid by themselves, given with their files."""
    problems: list[Problem] = []
    graph_files: dict[str, str] = {}
    node_owners: dict[tuple[str, str], str] = {}
    override_owners: dict[str, str] = {}
    sources: dict[str, tuple[str, Datasource]] = {}
    for file, graph in graphs:
        if first := graph_files.get(graph.graph_id):
            problems.append(Problem(file, None, "graph", f"graph {graph.graph_id} is already defined in {first}"))
            continue
        graph_files[graph.graph_id] = file
        problems += _check_nodes(file, graph, node_owners)
        problems += _check_datasources(file, graph, sources)
        for index, edge in enumerate(graph.edges):
            if edge.kafka_topic:
                owner = override_owners.setdefault(collision_key(edge.kafka_topic), file)
                if owner != file:
                    message = f"{edge.kafka_topic} is already a topic of {owner}"
                    problems.append(Problem(file, None, f"edges[{index}].topic", message, "choose another name"))
    known = {(graph.cluster_id, node.node_id): node for _, graph in graphs for node in graph.nodes}
    for file, graph in graphs:
        problems += _check_bridges(file, graph, known)
    return problems


def _check_bridges(file: str, graph: Graph, known: Mapping[tuple[str, str], Node]) -> list[Problem]:
    """Check that the target of an edge to another cluster accepts it, if the target's graph is known here."""
    problems = []
    for index, edge in enumerate(graph.edges):
        node = known.get((edge.to_cluster_id, edge.to_node_id)) if edge.is_cross_cluster else None
        if node is None or node.takes_from(graph.cluster_id):
            continue
        target = f"{edge.to_cluster_id}:{edge.to_node_id}"
        if node.is_bridged:
            message = f"{target} takes documents from {', '.join(node.visible_to)}, not from {graph.cluster_id}"
            hint = f"add {graph.cluster_id} to its visible_to"
        else:
            message = f"{target} is private, so nobody drains {destination_of(edge, graph).topic}"
            hint = "set visibility: public on that node, or restricted with visible_to"
        problems.append(Problem(file, None, f"edges[{index}].to", message, hint))
    return problems


def _check_nodes(file: str, graph: Graph, owners: dict[tuple[str, str], str]) -> list[Problem]:
    problems = []
    for index, node in enumerate(graph.nodes):
        if node.is_bare_end:
            continue  # graphs may end in the same place: nothing is drained there
        owner = owners.setdefault((node.cluster_id, node.node_id), file)
        if owner != file:
            message = f"node {node.node_id} of cluster {node.cluster_id} is already defined in {owner}"
            hint = "both would drain the same topic; rename one"
            problems.append(Problem(file, None, f"nodes[{index}].id", message, hint))
    return problems


def _check_datasources(file: str, graph: Graph, sources: dict[str, tuple[str, Datasource]]) -> list[Problem]:
    problems = []
    for index, source in enumerate(graph.datasources):
        first_file, first = sources.setdefault(source.datasource_id, (file, source))
        for name in _SHARED:
            ours, theirs = getattr(source, name), getattr(first, name)
            if ours != theirs:
                message = f"datasource {source.datasource_id} has {ours} here and {theirs} in {first_file}"
                field = f"datasources[{index}].{name.removesuffix('_id')}"
                problems.append(Problem(file, None, field, message, "graphs that share a datasource must agree"))
    return problems

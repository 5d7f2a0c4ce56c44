"""A graph that has been read but not yet checked, and how it is built from the values of a graph file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipestream.errors import GraphInvalid
from pipestream.graph.format import DATASOURCE, EDGE, GRAPH, NODE
from pipestream.graph.kinds import Kind, Section, Sections
from pipestream.graph.model import HAPPY_END, Datasource, Edge, Graph, Node, NodeType
from pipestream.graph.read import read_section
from pipestream.graph.report import Report
from pipestream.graph.yamltree import tree_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Draft:
    """The parts of a graph that could be read, each with its place in the file."""

    graph: Graph
    """Parts that could not be read are missing, so others may refer to nodes that are not in it."""
    nodes: tuple[tuple[str, Node], ...]
    edges: tuple[tuple[str, Edge], ...]
    datasources: tuple[tuple[str, Datasource], ...]
    unreadable_nodes: bool = False
    """Some node has no id that could be read, so an unknown node may be that one."""


def restore_graph(values: Mapping[str, Any], file: str) -> Graph:
    """Return a graph that was checked when it was stored, without checking the current rules.

    A rule that was added later must not make old versions unreadable.

    :raises GraphInvalid: a value is not of its field's kind.
    """
    report = Report(file)
    read = read_section(tree_of(values), GRAPH, "", report)
    if read is None or report.problems:
        raise GraphInvalid(report.problems)
    return build_draft(read).graph


def build_draft(values: Mapping[str, Any]) -> Draft:
    """Build a draft from the values of a graph file. Parts without their ids are left out."""
    cluster = values.get("cluster", "")

    def find_cluster(edge: Mapping[str, Any]) -> dict[str, Any]:
        other = edge.get("cluster", "")
        return {"to_cluster_id": "" if other == cluster else other, "is_cross_cluster": other not in ("", cluster)}

    nodes = _place("nodes", NODE, values, lambda _: {"cluster_id": cluster})
    edges = _place("edges", EDGE, values, find_cluster)
    datasources = _place("datasources", DATASOURCE, values, lambda _: {})
    graph = make_part(
        GRAPH,
        values,
        nodes=_complete_nodes([node for _, node in nodes], cluster, values.get("happy_end", HAPPY_END)),
        edges=tuple(edge for _, edge in edges),
        datasources=tuple(source for _, source in datasources),
    )
    return Draft(graph, nodes, edges, datasources, len(nodes) < len(values.get("nodes", ())))


def make_part(section: Section, values: Mapping[str, Any], number: int = 1, **known: Any) -> Any:
    """Build a part of a graph from its values; None if its id could not be read.

    :param number: its place in its list, from 1.
    :param known: attributes that are not among its own values.
    """
    if any(key not in values for key in section.identity):
        return None
    attributes = dict(known)
    for key, value in values.items():
        field = section.by_key.get(key)
        if field is not None and field.attribute not in known:
            attributes[field.attribute] = _made(field.kind, value)
    for attribute, implied in section.implied:
        if attribute not in attributes:
            attributes[attribute] = implied(attributes, number)
    if section.others:
        attributes[section.others] = {key: value for key, value in values.items() if key not in section.by_key}
    for attribute in section.without_default:
        attributes.setdefault(attribute, "")  # it has its problem already, and the rest can still be checked
    return section.model(**attributes)


def _made(kind: Kind, value: Any) -> Any:
    if isinstance(kind, Section):
        return make_part(kind, value)
    if isinstance(kind, Sections):
        parts = [make_part(kind.section, each or {}, number) for number, each in enumerate(value, start=1)]
        # A list with a hole would put the other parts' problems in the wrong place.
        return () if None in parts else tuple(parts)
    return value


def _place(
    key: str, section: Section, values: Mapping[str, Any], known: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> tuple[tuple[str, Any], ...]:
    """Build the parts of a list, each with its place."""
    made = [
        (f"{key}[{index}]", make_part(section, each, index + 1, **known(each)))
        for index, each in enumerate(values.get(key, ()))
        if each
    ]
    return tuple((place, part) for place, part in made if part is not None)


def _complete_nodes(nodes: Sequence[Node], cluster_id: str, happy_end: str) -> tuple[Node, ...]:
    """Return the nodes, with the happy-end, which a file need not list."""
    if happy_end == HAPPY_END and all(node.node_id != HAPPY_END for node in nodes):
        return (*nodes, implicit_end(cluster_id))
    return tuple(nodes)


def implicit_end(cluster_id: str) -> Node:
    """Return the happy-end of a graph that lists none."""
    return Node(node_id=HAPPY_END, cluster_id=cluster_id, node_type=NodeType.SINK)

"""A graph in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pipestream.graph.draw import to_mermaid, to_svg
from pipestream.graph.flow import Destination, destination_of
from pipestream.topic_names import intake_topic

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipestream.graph.model import Edge, Graph, Node

__all__ = ["show_edges", "show_graph", "to_mermaid", "to_svg"]


def show_graph(graph: Graph) -> RenderableType:
    """Return a graph as a tree that starts at its datasources: each node once, with its outgoing edges."""
    tree = Tree(_line((graph.graph_id, "bold"), (f"cluster {graph.cluster_id}", "dim"), (graph.name, "")))
    shown: set[str] = set()
    for source in graph.datasources:
        branch = tree.add(
            _line(
                (intake_topic(source.datasource_id), "green"),
                ("paused" if source.paused else "", "red"),
                (source.schedule, "dim"),
            )
        )
        _show_node(graph, source.entry_node_id, branch, shown)
    for node in graph.nodes:
        if node.node_id not in shown and (graph.edges_from[node.node_id] or not node.is_end):
            _show_node(graph, node.node_id, tree, shown)
    return tree


def show_edges(graph: Graph) -> Table:
    """Return a graph's edges as a table, in the order in which they are tried."""
    table = Table("from", "to", "transport", "topic", "priority", "condition", "max hops", title=graph.graph_id)
    for node in graph.nodes:
        for edge in graph.edges_from[node.node_id]:
            destination = destination_of(edge, graph)
            table.add_row(
                *(
                    Text(cell)
                    for cell in (
                        edge.from_node_id,
                        _target(edge),
                        _transport(destination),
                        destination.topic or destination.engine,
                        str(edge.priority),
                        edge.condition or "always",
                        str(edge.max_hops or ""),
                    )
                )
            )
    return table


def _show_node(graph: Graph, node_id: str, root: Tree, shown: set[str]) -> None:
    """Add a node and what follows it. With a stack of its own: a graph may be a chain of thousands."""
    waiting: list[tuple[Tree, Edge | None, str]] = [(root, None, node_id)]
    while waiting:
        parent, edge, node_id = waiting.pop()
        node = None if edge is not None and edge.is_cross_cluster else graph.node_by_id[node_id]
        seen = node_id in shown
        branch = parent.add(_describe(graph, edge, node, seen=seen))
        if node is not None and not seen:
            shown.add(node_id)
            following = graph.edges_from[node_id]
            waiting += [(branch, each, each.to_node_id) for each in reversed(following)]


def _describe(graph: Graph, edge: Edge | None, node: Node | None, *, seen: bool) -> Text:
    parts: list[tuple[str, str]] = []
    if edge is not None:
        destination = destination_of(edge, graph)
        parts.append((f"─{_transport(destination)}→", "magenta" if destination.is_fused else "blue"))
    if node is None:
        assert edge is not None
        parts.append((_target(edge), "yellow"))
    else:
        parts += [(node.node_id, "bold"), ("" if seen else node.module, "dim")]
        parts.append(("(above)" if seen and not node.is_end else "end" if node.is_end else "", "dim"))
    if edge is not None:
        parts.append((f"when {edge.condition}" if edge.condition else "", "cyan"))
        parts.append((f"priority {edge.priority}" if edge.priority else "", "dim"))
        parts.append((f"at most {edge.max_hops} times" if edge.max_hops else "", "dim"))
    return _line(*parts)


def _transport(destination: Destination) -> str:
    return "grpc" if destination.is_fused else "kafka"


def _target(edge: Edge) -> str:
    return f"{edge.to_cluster_id}:{edge.to_node_id}" if edge.is_cross_cluster else edge.to_node_id


def _line(*parts: tuple[str, str]) -> Text:
    return Text("  ").join(Text(text, style=style) for text, style in parts if text)

"""The documentation that Airflow shows for a graph's DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.graph.draw import to_mermaid
from pipestream.graph.proto import graph_hash

if TYPE_CHECKING:
    from pipestream.graph.model import Edge, Graph, Node


def describe_graph(graph: Graph) -> str:
    """Return a graph as Markdown: what it is, its version, its picture, its datasources, nodes and edges."""
    parts = [
        f"# {graph.name or graph.graph_id}",
        graph.description.strip(),
        (
            f"Graph `{graph.graph_id}` of cluster `{graph.cluster_id}`, generated from its graph file. "
            f"The first task looks at all topics and skips those with nothing to drain; then a task drains each "
            f"topic that is left; the last one reports what the run did."
        ),
        f"Version `{graph_hash(graph)}`",
        f"```mermaid\n{to_mermaid(graph)}```",
        _table(
            ("Datasource", "Account", "Enters at", "Schedule"),
            [
                (
                    f"`{source.datasource_id}`" + (" (paused)" if source.paused else ""),
                    source.account_id,
                    f"`{source.entry_node_id}`",
                    source.schedule or "none",
                )
                for source in sorted(graph.datasources, key=lambda source: source.datasource_id)
            ],
        ),
        _table(
            ("Node", "Module"),
            [_node_row(graph, node) for node in sorted(graph.nodes, key=lambda n: n.node_id)],
        ),
        _table(
            ("From", "To", "By", "Condition"),
            [_edge_row(edge) for node_id in sorted(graph.edges_from) for edge in graph.edges_from[node_id]],
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _node_row(graph: Graph, node: Node) -> tuple[str, ...]:
    ends = {graph.happy_end: "happy end", graph.error_end: "error end"}
    does = f"`{node.module}`" if node.module else ends.get(node.node_id, "passes documents on")
    return f"`{node.node_id}`", does


def _edge_row(edge: Edge) -> tuple[str, ...]:
    target = f"`{edge.to_node_id}`" + (f" in `{edge.to_cluster_id}`" if edge.is_cross_cluster else "")
    condition = " ".join(edge.condition.split()).replace("|", "\\|")
    return f"`{edge.from_node_id}`", target, edge.transport.value, f"`{condition}`" if condition else "always"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

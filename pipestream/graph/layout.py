"""Places for the boxes of a drawn graph: layers from left to right, few crossings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.graph.flow import destination_of
from pipestream.graph.model import Graph, NodeType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Box:
    """Something to draw: a datasource, a node, or a node of another cluster."""

    key: str
    title: str
    note: str
    shape: str
    """datasource, connector, processor, sink or remote."""


@dataclass(frozen=True, slots=True)
class Link:
    """A line to draw."""

    start: str
    end: str
    label: str
    fused: bool
    """By gRPC: drawn dashed."""


def boxes_of(graph: Graph) -> list[Box]:
    """Return what a picture of a graph shows as boxes."""
    boxes = [
        Box(
            f"datasource:{source.datasource_id}",
            source.datasource_id,
            "paused" if source.paused else "datasource",
            "datasource",
        )
        for source in graph.datasources
    ]
    boxes += [
        Box(node.node_id, node.node_id, node.module or _kind(node.node_type), node.node_type.value)
        for node in graph.nodes
    ]
    remote = {(edge.to_cluster_id, edge.to_node_id) for edge in graph.edges if edge.is_cross_cluster}
    boxes += [Box(f"{cluster}:{node}", node, f"cluster {cluster}", "remote") for cluster, node in sorted(remote)]
    return boxes


def links_of(graph: Graph) -> list[Link]:
    """Return what a picture of a graph shows as lines, in the order in which edges are tried."""
    links = [
        Link(f"datasource:{source.datasource_id}", source.entry_node_id, "", fused=False)
        for source in graph.datasources
    ]
    for node in graph.nodes:
        if not node.is_end and not graph.edges_from[node.node_id]:
            links.append(Link(node.node_id, graph.happy_end, "end of the route", fused=False))
        for edge in graph.edges_from[node.node_id]:
            parts = [edge.condition, f"priority {edge.priority}" if edge.priority else ""]
            parts.append(f"at most {edge.max_hops} times" if edge.max_hops else "")
            end = f"{edge.to_cluster_id}:{edge.to_node_id}" if edge.is_cross_cluster else edge.to_node_id
            fused = destination_of(edge, graph).is_fused
            links.append(Link(node.node_id, end, " · ".join(filter(None, [*parts, "gRPC" if fused else ""])), fused))
    return links


def arrange(boxes: Sequence[Box], links: Sequence[Link]) -> list[list[Box]]:
    """Return the boxes in layers, each after those that lead to it; links that go back are ignored."""
    followers: dict[str, list[str]] = {box.key: [] for box in boxes}
    for link in links:
        followers[link.start].append(link.end)
    layer = _longest_ways([box.key for box in boxes], followers)
    layers: list[list[Box]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for box in boxes:
        layers[layer[box.key]].append(box)
    _uncross(layers, links)
    return [boxes for boxes in layers if boxes]


def _longest_ways(keys: Sequence[str], followers: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return for each box the length of the longest path to it, without cycles."""
    order: list[str] = []
    state: dict[str, int] = {}  # 1: on the way being walked, 2: done
    backward: set[tuple[str, str]] = set()
    for root in keys:
        if root in state:
            continue
        walk = [(root, iter(followers[root]))]
        state[root] = 1
        while walk:
            key, waiting = walk[-1]
            following = next(waiting, None)
            if following is None:
                walk.pop()
                state[key] = 2
                order.append(key)
            elif state.get(following) == 1:
                backward.add((key, following))
            elif following not in state:
                state[following] = 1
                walk.append((following, iter(followers[following])))
    layer = dict.fromkeys(keys, 0)
    for key in reversed(order):
        for following in followers[key]:
            if (key, following) not in backward:
                layer[following] = max(layer[following], layer[key] + 1)
    return layer


def _uncross(layers: list[list[Box]], links: Sequence[Link]) -> None:
    """Move each box to the middle of its neighbours, in several passes back and forth."""
    neighbours: dict[str, list[str]] = {}
    for link in links:
        neighbours.setdefault(link.start, []).append(link.end)
        neighbours.setdefault(link.end, []).append(link.start)
    place = {box.key: float(index) for boxes in layers for index, box in enumerate(boxes)}
    for sweep in range(_SWEEPS):
        for boxes in layers if sweep % 2 == 0 else reversed(layers):
            middle = {
                box.key: sum(place[key] for key in near) / len(near)
                if (near := neighbours.get(box.key))
                else place[box.key]
                for box in boxes
            }
            boxes.sort(key=lambda box: middle[box.key])
            place.update({box.key: float(index) for index, box in enumerate(boxes)})


def _kind(node_type: NodeType) -> str:
    return "passes on" if node_type is not NodeType.SINK else "end"

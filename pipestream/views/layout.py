"""A graph as a picture to draw: boxes in columns from left to right, and lines that no box covers.

The steps are Sugiyama's:

1. Put every box into a column behind those that lead to it. Links that close a cycle do not count.
2. Give every line a free place in each column that it crosses, as if it had a small box there.
3. Order the places of each column so that few lines cross.
4. Move places towards their neighbours, so that lines are straight where they can be.

A line is inside its own place in a column, and between columns there are no boxes. So no line runs behind a box.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipestream.graph.flow import destination_of, drained_topics
from pipestream.graph.layout import Box, Link, arrange, boxes_of
from pipestream.views.columns import (
    BOX_HEIGHT,
    BOX_WIDTH,
    Columns,
    Route,
    height_of,
    make_columns,
    move_to_neighbours,
    uncross,
)
from pipestream.views.spacing import spread

if TYPE_CHECKING:
    from pipestream.graph.model import Graph

# Between two columns: wide enough for a condition of 26 letters, or for the curves alone.
_GAP_LABELLED, _GAP_BARE = 172.0, 68.0
_MARGIN = 24.0
_LABEL_HEIGHT = 18.0
# A line that goes back turns around in the gap beside its box; it uses this share of the gap.
_TURN = 0.45
# Lines leave and enter a box along this share of its side, one below the other.
_SIDE = 0.5


@dataclass(frozen=True, slots=True)
class PlacedBox:
    """A box of the picture."""

    key: str
    title: str
    note: str
    kind: str
    """datasource, connector, processor, sink or remote."""
    node_id: str
    """The node of this graph that it stands for; empty for a datasource or a node of another cluster."""
    topics: tuple[str, ...]
    """The topics that are drained into it, or the datasource's intake topic."""
    x: float
    y: float
    width: float = BOX_WIDTH
    height: float = BOX_HEIGHT


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of the picture, from one box to another."""

    edge_id: str
    """Empty where the graph names no edge: from a datasource, and from a node without edges to the end."""
    start: str
    end: str
    condition: str
    transport: str
    """``kafka``, ``bridge``, ``fused``, ``engine``, ``intake`` or ``end``."""
    path: str
    """What an SVG path draws."""
    label_x: float
    label_y: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph, ready to draw."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    lines: tuple[PlacedLine, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def lay_out(graph: Graph) -> Picture:
    """Return the picture of a graph. The same graph gives the same picture."""
    boxes, routes = boxes_of(graph), _routes_of(graph)
    links = [Link(each.start, each.end, "", fused=False) for each in routes]
    columns = make_columns(arrange(boxes, links), routes)
    uncross(columns)
    move_to_neighbours(columns)
    return _draw(graph, boxes, routes, columns)


def _routes_of(graph: Graph) -> list[Route]:
    routes = [
        Route("", f"datasource:{each.datasource_id}", each.entry_node_id, "", "intake") for each in graph.datasources
    ]
    for node in graph.nodes:
        edges = graph.edges_from[node.node_id]
        if not node.is_end and not edges:
            routes.append(Route("", node.node_id, graph.happy_end, "", "end"))
        for edge in edges:
            end = f"{edge.to_cluster_id}:{edge.to_node_id}" if edge.is_cross_cluster else edge.to_node_id
            way = destination_of(edge, graph).way.value
            transport = "kafka" if way in ("node", "rest") else way
            routes.append(Route(edge.edge_id, node.node_id, end, edge.condition, transport))
    return routes


def _draw(graph: Graph, boxes: Sequence[Box], routes: Sequence[Route], columns: Columns) -> Picture:
    top = min((centre - height_of(place) / 2 for place, centre in columns.centre.items()), default=0.0)
    for place in columns.centre:
        columns.centre[place] += _MARGIN - top
    lefts, gaps = _column_edges(routes, columns)
    topics = _topics_of(graph)
    placed = tuple(
        PlacedBox(
            key=box.key,
            title=box.title,
            note=box.note,
            kind=box.shape,
            node_id=box.key if box.key in graph.node_by_id else "",
            topics=topics.get(box.key, ()),
            x=lefts[columns.column[box.key]],
            y=round(columns.centre[box.key] - BOX_HEIGHT / 2, 1),
        )
        for box in boxes
    )
    lines = _draw_lines(routes, columns, lefts, gaps)
    bottom = max((centre + height_of(place) / 2 for place, centre in columns.centre.items()), default=0.0)
    width = lefts[-1] + BOX_WIDTH + gaps[-1] if lefts else 2 * _MARGIN
    return Picture(round(width, 1), round(bottom + _MARGIN, 1), placed, lines)


def _column_edges(routes: Sequence[Route], columns: Columns) -> tuple[list[float], list[float]]:
    """Return where each column begins, and how wide the gap behind it is."""
    count = len(columns.places)
    gaps = [_GAP_BARE] * count
    for route in routes:
        if route.condition:
            gaps[columns.column[route.start]] = _GAP_LABELLED
    turns_back = any(columns.column[each.end] <= columns.column[each.start] for each in routes)
    if count and gaps[-1] == _GAP_BARE and not turns_back:
        gaps[-1] = _MARGIN
    lefts, at = [], _MARGIN + (_GAP_BARE * _TURN if turns_back else 0.0)
    for gap in gaps:
        lefts.append(at)
        at += BOX_WIDTH + gap
    return lefts, gaps


def _topics_of(graph: Graph) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for each in drained_topics(graph):
        key = f"datasource:{each.datasource_id}" if each.datasource_id else each.node_id
        found.setdefault(key, []).append(each.topic)
    return {key: tuple(topics) for key, topics in found.items()}


def _draw_lines(
    routes: Sequence[Route], columns: Columns, lefts: Sequence[float], gaps: Sequence[float]
) -> tuple[PlacedLine, ...]:
    leaving, entering = _ports(columns, 1), _ports(columns, -2)
    paths, labels = [], []
    for number, way in enumerate(columns.ways):
        path, label = _draw_way(columns, way, leaving[number], entering[number], lefts, gaps)
        paths.append(path)
        labels.append(label)
    heights = _apart(routes, columns, labels)
    return tuple(
        PlacedLine(
            route.edge_id,
            route.start,
            route.end,
            route.condition,
            route.transport,
            paths[number],
            round(labels[number][0], 1),
            round(heights[number], 1),
        )
        for number, route in enumerate(routes)
    )


def _ports(columns: Columns, neighbour: int) -> list[float]:
    """Return for each route the height at which it touches its box, so that its lines do not cross there.

    :param neighbour: 1 for the side where routes leave, -2 for the side where they enter.
    """
    box_of = 0 if neighbour == 1 else -1
    at_box: dict[str, list[int]] = {}
    for number, way in enumerate(columns.ways):
        at_box.setdefault(way[box_of], []).append(number)
    found = [0.0] * len(columns.ways)
    for box, numbers in at_box.items():
        numbers.sort(key=lambda number: columns.centre[columns.ways[number][neighbour]])
        step = BOX_HEIGHT * _SIDE / len(numbers)
        for index, number in enumerate(numbers):
            found[number] = columns.centre[box] + (index - (len(numbers) - 1) / 2) * step
    return found


def _draw_way(
    columns: Columns, way: Sequence[str], leaves: float, enters: float, lefts: Sequence[float], gaps: Sequence[float]
) -> tuple[str, tuple[float, float]]:
    """Return the path of a route, and the middle of its first curve, where its label belongs."""
    x, y = lefts[columns.column[way[0]]] + BOX_WIDTH, leaves
    path, label = [f"M{x:.1f} {y:.1f}"], None
    for one, other in pairwise(way):
        forward = columns.column[other] - columns.column[one]
        left = lefts[columns.column[other]]
        to_y = enters if other == way[-1] else columns.centre[other]
        if forward == 0:
            # Turn around: out of the box's right side into the passage, or out of the passage into the left side.
            is_leaving = one == way[0]
            at = columns.column[one]
            room = (gaps[at] if is_leaving else (gaps[at - 1] if at else _GAP_BARE)) * _TURN
            far = x + room if is_leaving else x - room
            path.append(f"C{far:.1f} {y:.1f} {far:.1f} {to_y:.1f} {x:.1f} {to_y:.1f}")
            label = label or ((x + far) / 2, (y + to_y) / 2)
        else:
            to_x = left if forward > 0 else left + BOX_WIDTH
            middle = (x + to_x) / 2
            path.append(f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}")
            label = label or (middle, (y + to_y) / 2)
            x = to_x
        y = to_y
        if other != way[-1]:
            # Across the column, inside the route's own place.
            goes_back = columns.column[way[-1]] <= columns.column[way[0]]
            x = left if goes_back else left + BOX_WIDTH
            path.append(f"L{x:.1f} {y:.1f}")
    assert label is not None, "a route joins two places"
    return "".join(path), label


def _apart(routes: Sequence[Route], columns: Columns, labels: Sequence[tuple[float, float]]) -> list[float]:
    """Return the heights of the labels, moved apart where several are in one gap."""
    heights = [y for _, y in labels]
    in_gap: dict[int, list[int]] = {}
    for number, route in enumerate(routes):
        if route.condition:
            in_gap.setdefault(columns.column[route.start], []).append(number)
    for numbers in in_gap.values():
        numbers.sort(key=lambda number: labels[number][1])
        moved = spread([labels[number][1] for number in numbers], [_LABEL_HEIGHT] * (len(numbers) - 1))
        for number, height in zip(numbers, moved, strict=True):
            heights[number] = height
    return heights

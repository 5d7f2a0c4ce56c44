from __future__ import annotations

import re
import time
from itertools import combinations, pairwise

import pytest

from pipestream.graph.model import Datasource, Edge, Graph, Node, NodeType, Transport
from pipestream.views.layout import Picture, PlacedBox, PlacedLine, lay_out
from pipestream.views.spacing import spread

Point = tuple[float, float]
STEPS = 16


def make_graph(edges: list[tuple[str, str]], *, condition: str = "", entry: str = "n0") -> Graph:
    names = list(dict.fromkeys([entry, *(name for edge in edges for name in edge)]))
    nodes = [Node(name, "main") for name in names]
    nodes.append(Node("happy-end", "main", node_type=NodeType.SINK))
    made = [
        Edge(f"e{number}", start, end, "main", condition=condition, transport=Transport.KAFKA)
        for number, (start, end) in enumerate(edges)
    ]
    return Graph("g", "main", tuple(nodes), tuple(made), (Datasource("files", "acme", entry),))


def points_of(line: PlacedLine) -> list[Point]:
    """Walk along a path: the corners of its lines, and STEPS points of each curve."""
    found: list[Point] = []
    for command, text in re.findall(r"([MLC])([^MLC]+)", line.path):
        numbers = [float(each) for each in text.split()]
        corners = list(zip(numbers[::2], numbers[1::2], strict=True))
        if command == "C":
            found += [_bezier(found[-1], *corners, step / STEPS) for step in range(1, STEPS + 1)]
        else:
            if command == "L":
                (x1, y1), (x2, y2) = found[-1], corners[0]
                found += [(x1 + (x2 - x1) * step / STEPS, y1 + (y2 - y1) * step / STEPS) for step in range(1, STEPS)]
            found += corners
    return found


def _bezier(a: Point, b: Point, c: Point, d: Point, t: float) -> Point:
    def mix(index: int) -> float:
        return (
            a[index] * (1 - t) ** 3 + 3 * b[index] * t * (1 - t) ** 2 + 3 * c[index] * t * t * (1 - t) + d[index] * t**3
        )

    return mix(0), mix(1)


def covers(box: PlacedBox, point: Point) -> bool:
    x, y = point
    return box.x + 0.5 < x < box.x + box.width - 0.5 and box.y + 0.5 < y < box.y + box.height - 0.5


def check_picture(picture: Picture) -> None:
    for one, other in combinations(picture.boxes, 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y, (one.key, other.key)
    for line in picture.lines:
        points = points_of(line)
        left, right = min(x for x, _ in points), max(x for x, _ in points)
        near = [box for box in picture.boxes if box.x < right and left < box.x + box.width]
        for point in points:
            assert not [box.key for box in near if covers(box, point)], line
            assert 0 <= point[0] <= picture.width, line
            assert 0 <= point[1] <= picture.height, line


GRAPHS = {
    "a chain": [("n0", "n1"), ("n1", "n2"), ("n2", "n3")],
    "a diamond with a short cut": [("n0", "n1"), ("n0", "n2"), ("n1", "n3"), ("n2", "n3"), ("n0", "n3"), ("n3", "n4")],
    "a long way around": [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n0", "n4"), ("n1", "n4")],
    "a cycle": [("n0", "n1"), ("n1", "n2"), ("n2", "n0"), ("n2", "n3")],
    "a node that leads to itself": [("n0", "n0"), ("n0", "n1")],
    "cycles into each other": [("n0", "n1"), ("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n0"), ("n1", "n3")],
    "two edges between the same nodes": [("n0", "n1"), ("n0", "n1")],
}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_no_line_runs_behind_a_box_and_no_boxes_overlap(edges: list[tuple[str, str]]) -> None:
    check_picture(lay_out(make_graph(edges, condition="doc.search_metadata.title == 'x'")))


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_every_line_joins_the_sides_of_its_two_boxes(edges: list[tuple[str, str]]) -> None:
    picture = lay_out(make_graph(edges))
    boxes = {box.key: box for box in picture.boxes}
    assert len(picture.lines) >= len(edges) + 1
    for line in picture.lines:
        start, end = boxes[line.start], boxes[line.end]
        first, *_, last = points_of(line)
        assert first[0] == pytest.approx(start.x + start.width)
        assert last[0] == pytest.approx(end.x)
        assert start.y < first[1] < start.y + start.height
        assert end.y < last[1] < end.y + end.height


def test_a_document_goes_from_left_to_right() -> None:
    picture = lay_out(make_graph(GRAPHS["a chain"]))
    boxes = {box.key: box for box in picture.boxes}
    way = ["datasource:files", "n0", "n1", "n2", "n3", "happy-end"]
    assert all(boxes[one].x < boxes[other].x for one, other in pairwise(way))


def test_boxes_and_lines_say_what_the_page_needs() -> None:
    picture = lay_out(make_graph([("n0", "n1")], condition="doc.doc_id != ''"))
    boxes = {box.key: box for box in picture.boxes}
    assert boxes["datasource:files"].topics == ("intake.files",)
    assert boxes["n1"].topics == ("pipestream.main.n1",)
    assert boxes["n1"].node_id == "n1"
    edge = next(line for line in picture.lines if line.edge_id)
    assert (edge.edge_id, edge.start, edge.end, edge.transport) == ("e0", "n0", "n1", "kafka")
    assert edge.condition == "doc.doc_id != ''"
    assert {line.transport for line in picture.lines} == {"intake", "kafka", "end"}


def test_labels_of_a_fan_out_do_not_overlap() -> None:
    picture = lay_out(make_graph([("n0", f"n{number}") for number in range(1, 9)], condition="true"))
    heights = sorted(line.label_y for line in picture.lines if line.edge_id)
    assert all(other - one >= 17.9 for one, other in pairwise(heights))


def test_the_same_graph_gives_the_same_picture() -> None:
    graph = make_graph(GRAPHS["cycles into each other"])
    assert lay_out(graph).to_json() == lay_out(graph).to_json()


def test_a_graph_of_two_hundred_nodes_is_laid_out_in_a_moment() -> None:
    edges = [(f"n{number}", f"n{number + step}") for number in range(190) for step in (1, 3, 9)]
    edges += [(f"n{number}", f"n{number - 30}") for number in range(60, 190, 40)]
    graph = make_graph(edges)
    began = time.thread_time()
    picture = lay_out(graph)
    # Measured: 0.1 s. The limit is far above that, and only says that nothing grows out of proportion.
    assert time.thread_time() - began < 5
    assert len(picture.boxes) == 201
    check_picture(picture)


def test_places_stay_where_they_are_wanted_if_there_is_room() -> None:
    assert spread([0.0, 50.0, 100.0], [10.0, 10.0]) == [0.0, 50.0, 100.0]


def test_places_that_want_the_same_spot_are_spread_around_it() -> None:
    assert spread([50.0, 50.0, 50.0], [10.0, 10.0]) == [40.0, 50.0, 60.0]

"""Columns of a picture: which box and which line is where, before anything is drawn.

A line has a free place in each column that it crosses, as if it had a small box there: a passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pipestream.graph.layout import Box
from pipestream.views.spacing import spread

BOX_WIDTH, BOX_HEIGHT = 216.0, 84.0
_PASSAGE_HEIGHT = 14.0
_GAP_Y = 30.0
_ORDER_SWEEPS, _MOVE_SWEEPS = 8, 6


@dataclass(frozen=True, slots=True)
class Route:
    """A line before it has places: which boxes it joins and what it says."""

    edge_id: str
    start: str
    end: str
    condition: str
    transport: str


@dataclass(slots=True)
class Columns:
    """The columns and the places in them. A place is a box's key or a passage, named for its route and its column."""

    column: dict[str, int]
    places: list[list[str]]
    ways: list[list[str]]
    """For each route the places that it goes through, from its start to its end, both included."""
    centre: dict[str, float] = field(default_factory=dict)


def make_columns(layers: Sequence[Sequence[Box]], routes: Sequence[Route]) -> Columns:
    column = {box.key: number for number, layer in enumerate(layers) for box in layer}
    places = [[box.key for box in layer] for layer in layers]
    ways = []
    for number, route in enumerate(routes):
        first, last = column[route.start], column[route.end]
        # One that goes back, or to its own column, also passes the columns of its two boxes.
        between = range(first + 1, last) if last > first else range(first, last - 1, -1)
        way = [route.start]
        for at in between:
            passage = f"\0{number}:{at}"
            column[passage] = at
            places[at].append(passage)
            way.append(passage)
        ways.append([*way, route.end])
    return Columns(column, places, ways)


def _neighbours(columns: Columns) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {place: [] for places in columns.places for place in places}
    for way in columns.ways:
        for one, other in pairwise(way):
            # A box and a passage in its own column do not pull at each other.
            if columns.column[one] != columns.column[other]:
                near[one].append(other)
                near[other].append(one)
    return near


def uncross(columns: Columns) -> None:
    """Order each column by the middle of its neighbours' ranks in the column before, back and forth."""
    near = _neighbours(columns)
    rank = {place: float(index) for places in columns.places for index, place in enumerate(places)}
    for sweep in range(_ORDER_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for places in columns.places[::step]:
            middles = {}
            for place in places:
                before = [rank[each] for each in near[place] if columns.column[each] == columns.column[place] - step]
                middles[place] = sum(before) / len(before) if before else rank[place]
            places.sort(key=middles.__getitem__)
            rank.update({place: float(index) for index, place in enumerate(places)})


def move_to_neighbours(columns: Columns) -> None:
    near = _neighbours(columns)
    for places in columns.places:
        distances = _distances(places)
        for place, centre in zip(places, spread([0.0] * len(places), distances), strict=True):
            columns.centre[place] = centre
    for sweep in range(_MOVE_SWEEPS):
        for places in columns.places[:: 1 if sweep % 2 == 0 else -1]:
            wanted = []
            for place in places:
                centres = [columns.centre[each] for each in near[place]]
                wanted.append(sum(centres) / len(centres) if centres else columns.centre[place])
            for place, centre in zip(places, spread(wanted, _distances(places)), strict=True):
                columns.centre[place] = centre


def _distances(places: Sequence[str]) -> list[float]:
    """Return how far apart the centres of each place and the next one must be."""
    return [(height_of(one) + height_of(other)) / 2 + _GAP_Y for one, other in pairwise(places)]


def height_of(place: str) -> float:
    return _PASSAGE_HEIGHT if place.startswith("\0") else BOX_HEIGHT

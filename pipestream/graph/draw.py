"""Pictures of a graph as text: Mermaid and SVG."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from pipestream.graph.layout import Box, Link, arrange, boxes_of, links_of

if TYPE_CHECKING:
    from pipestream.graph.model import Graph

_WIDTH, _HEIGHT = 190, 52
_GAP_X, _GAP_Y = 210, 34
_MARGIN = 30
_TITLE_LETTERS, _NOTE_LETTERS, _LABEL_LETTERS = 24, 30, 36
# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MERMAID_ENTITIES = {ord(letter): f"#{ord(letter)};" for letter in '"#<>&|`'}

_STYLE = """
text{font:13px system-ui,sans-serif;fill:#1d2733;text-anchor:middle}
.note{font-size:10px;fill:#5b6775}
.label{font-size:10px;fill:#39424e;paint-order:stroke;stroke:#fff;stroke-width:4px}
rect{fill:#fff;stroke:#3b6ea5;stroke-width:1.5}
.datasource{fill:#eef6ee;stroke:#4b8b4b}
.connector{fill:#f3f7fb}
.sink{fill:#f2f2f2;stroke:#6b7280}
.remote{fill:#fff8ec;stroke:#c08a2d;stroke-dasharray:5 3}
path{fill:none;stroke:#5b6775;stroke-width:1.4}
.fused{stroke-dasharray:6 4;stroke:#8a4fbf}
"""


def to_mermaid(graph: Graph) -> str:
    """Return a graph as a Mermaid flowchart: gRPC edges are dashed, with condition and priority on the edge."""
    shapes = {"datasource": ("[(", ")]"), "sink": ("([", "])"), "remote": ("[[", "]]")}
    boxes = boxes_of(graph)
    names = {box.key: f"b{index}" for index, box in enumerate(boxes)}
    lines = ["flowchart LR"]
    for box in boxes:
        left, right = shapes.get(box.shape, ("[", "]"))
        lines.append(f'    {names[box.key]}{left}"{_mermaid_text(box.title)}"{right}')
    for link in links_of(graph):
        arrow = "-.->" if link.fused else "-->"
        label = f'|"{_mermaid_text(link.label)}"|' if link.label else ""
        lines.append(f"    {names[link.start]} {arrow}{label} {names[link.end]}")
    return "\n".join(lines) + "\n"


def to_svg(graph: Graph) -> str:
    """Return a graph as a self-contained SVG picture."""
    boxes, links = boxes_of(graph), links_of(graph)
    layers = arrange(boxes, links)
    tallest = max(len(layer) for layer in layers)
    height = tallest * (_HEIGHT + _GAP_Y)
    corners: dict[str, tuple[float, float]] = {}
    for column, layer in enumerate(layers):
        top = _MARGIN + (height - len(layer) * (_HEIGHT + _GAP_Y)) / 2
        for row, box in enumerate(layer):
            corners[box.key] = (_MARGIN + column * (_WIDTH + _GAP_X), top + row * (_HEIGHT + _GAP_Y))
    # links that go back run below everything else
    backward = [link for link in links if corners[link.end][0] <= corners[link.start][0]]
    width = len(layers) * (_WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    total = height + 2 * _MARGIN + 26 * len(backward)
    lanes = {id(link): _MARGIN + height + 26 * number for number, link in enumerate(backward)}
    drawn = [_draw_link(link, corners, lanes.get(id(link))) for link in links]
    drawn += [_draw_box(box, *corners[box.key]) for box in boxes]
    title = escape(_clean(f"{graph.graph_id}: {graph.name}" if graph.name else graph.graph_id))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{total:g}" '
        f'viewBox="0 0 {width:g} {total:g}" role="img">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" style="fill:#5b6775;stroke:none"/></marker></defs>\n'
        '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _draw_box(box: Box, x: float, y: float) -> str:
    middle = x + _WIDTH / 2
    radius = _HEIGHT / 2 if box.shape in ("datasource", "sink") else 6
    return (
        f"<g><title>{escape(_clean(f'{box.title}: {box.note}'))}</title>"
        f'<rect class={quoteattr(box.shape)} x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{radius:g}"/>'
        f'<text x="{middle:g}" y="{y + 22:g}">{escape(_clip(box.title, _TITLE_LETTERS))}</text>'
        f'<text class="note" x="{middle:g}" y="{y + 39:g}">{escape(_clip_start(box.note, _NOTE_LETTERS))}</text></g>'
    )


def _draw_link(link: Link, corners: dict[str, tuple[float, float]], lane: float | None) -> str:
    (start_x, start_y), (end_x, end_y) = corners[link.start], corners[link.end]
    x1, y1 = start_x + _WIDTH, start_y + _HEIGHT / 2
    x2, y2 = end_x, end_y + _HEIGHT / 2
    if lane is None:
        bend = max((x2 - x1) / 2, 30)
        way = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
        label_x, label_y = (x1 + x2) / 2, (y1 + y2) / 2 - 5
    else:
        x1, y1 = start_x + _WIDTH * 0.6, start_y + _HEIGHT
        x2, y2 = end_x + _WIDTH * 0.4, end_y + _HEIGHT
        way = f"M{x1:g} {y1:g}C{x1:g} {lane + 26:g} {x2:g} {lane + 26:g} {x2:g} {y2:g}"
        label_x, label_y = (x1 + x2) / 2, (y1 + y2) / 8 + (lane + 26) * 0.75 - 5
    style = ' class="fused"' if link.fused else ""
    line = f'<path{style} d="{way}" marker-end="url(#tip)"/>'
    if not link.label:
        return line
    # The full condition is in the tooltip; what tells edges apart comes after the common beginning.
    shown = link.label.replace("doc.search_metadata.", "")
    text = f'<text class="label" x="{label_x:g}" y="{label_y:g}">{escape(_clip(shown, _LABEL_LETTERS))}</text>'
    return f"<g><title>{escape(_clean(link.label))}</title>{line}{text}</g>"


def _clip(text: str, letters: int) -> str:
    text = " ".join(_clean(text).split())
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _clip_start(text: str, letters: int) -> str:
    """Shorten from the left, because modules differ at the end of their addresses."""
    text = " ".join(_clean(text).split())
    return text if len(text) <= letters else "…" + text[1 - letters :]


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


def _mermaid_text(text: str) -> str:
    """Escape text so that Mermaid shows it unchanged: entities for what would end a label or start markup."""
    text = text.translate(_MERMAID_ENTITIES)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else f"#{ord(letter)};" for letter in text)

"""A bar chart of a benchmark's scenario as SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from pipestream_testing.bench import Measured, Scenario, number

_ROW, _TOP, _LABELS, _BARS, _FIGURES = 26, 34, 250, 330, 140
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.ours { fill: #1f6feb } .rival { fill: #9aa4af } .spread { stroke: #57606a; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .ours { fill: #4493f8 } .rival { fill: #656c76 } .spread { stroke: #c9d1d9 }
}
"""


def plots(scenario: Scenario) -> dict[str, str]:
    """Return a plot for each unit of a scenario, by the name of its file: bars of different units do not compare."""
    units = list(dict.fromkeys(each.unit for each in scenario.measured))
    return {
        f"{scenario.name}{f'-{index + 1}' if index else ''}.svg": _plot(
            f"{scenario.title} ({unit})", [each for each in scenario.measured if each.unit == unit]
        )
        for index, unit in enumerate(units)
    }


def write_plots(scenarios: Iterable[Scenario], folder: Path) -> None:
    """Write the plots of scenarios, and delete those of scenarios that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: text for scenario in scenarios for name, text in plots(scenario).items()}
    for file in folder.glob("*.svg"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)


def _plot(title: str, rows: list[Measured]) -> str:
    longest = max(max(each.rounds) for each in rows) or 1.0
    scale = _BARS / longest
    bars = "\n".join(_bar(each, _TOP + index * _ROW, scale) for index, each in enumerate(rows))
    width, height = _LABELS + _BARS + _FIGURES, _TOP + len(rows) * _ROW + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n<text class="title" x="8" y="20">{escape(title)}'
        f"</text>\n{bars}\n</svg>\n"
    )


def _bar(row: Measured, top: int, scale: float) -> str:
    middle = top + _ROW / 2
    least, most = (_LABELS + edge * scale for edge in (min(row.rounds), max(row.rounds)))
    kind, width = "rival" if row.is_rival else "ours", max(row.median * scale, 1)
    return (
        f'<text x="{_LABELS - 8}" y="{middle + 4}" text-anchor="end">{escape(row.contender)}</text>'
        f'<rect class="{kind}" x="{_LABELS}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}"/>'
        f'<line class="spread" x1="{least:.1f}" x2="{most:.1f}" y1="{middle}" y2="{middle}"/>'
        f'<text x="{max(most, _LABELS + width) + 8:.1f}" y="{middle + 4}">{number(row.median)}</text>'
    )

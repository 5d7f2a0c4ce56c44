"""Write the tables of docs/performance.md from bench/results.json. ``make bench`` and ``make bench-quick`` run it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULTS = ROOT / "docs" / "performance.md", ROOT / "bench" / "results.json"
BEGIN, END = "<!-- generated: results -->", "<!-- end -->"
BUSY = 6.0
"""Above this load, other work has probably had a part of two cores."""


def results_text(scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a section per scenario: its figures, its targets, and its plot."""
    if not scenarios:
        return "Nothing is measured yet: run `make bench-quick`."
    return "\n\n".join(_section(name, scenario) for name, scenario in scenarios.items())


def _section(name: str, scenario: Mapping[str, Any]) -> str:
    rows = ["| contender | median | unit | lowest to highest | rounds |", "| --- | ---: | --- | ---: | ---: |"]
    for each in scenario["measured"]:
        rounds = each["rounds"]
        contender = each["contender"] if each["is_rival"] else f"**{each['contender']}**"
        spread = f"{_number(min(rounds))} to {_number(max(rounds))}" if len(rounds) > 1 else ""
        rows.append(f"| {contender} | {_number(median(rounds))} | {each['unit']} | {spread} | {len(rounds)} |")
    said = [*map(_target, scenario["targets"]), *scenario["notes"], _circumstances(scenario)]
    plot = f"![{scenario['title']}](../bench/plots/{name}.svg)"
    return "\n".join([f"### {scenario['title']}", "", *rows, "", *(f"- {each}" for each in said), "", plot])


def _target(target: Mapping[str, Any]) -> str:
    is_met = target["found"] <= target["wanted"] if target["at_most"] else target["found"] >= target["wanted"]
    sign = "≤" if target["at_most"] else "≥"
    verdict = "reached" if is_met else "**missed**"
    return f"{verdict}: {target['what']} {target['found']:.3g} (wanted {sign} {target['wanted']:g})"


def _circumstances(scenario: Mapping[str, Any]) -> str:
    busy = "; **the machine was busy with other work**" if scenario["load"] > BUSY else ""
    return f"{scenario['size']} form, {scenario['date']}, {scenario['machine']}, load {scenario['load']:g}{busy}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def fill(page: str, text: str) -> str:
    """Return the page with its generated part replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE.name} has no part {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> None:
    scenarios = json.loads(RESULTS.read_text())["scenarios"] if RESULTS.exists() else {}
    PAGE.write_text(fill(PAGE.read_text(), results_text(scenarios)))


if __name__ == "__main__":
    main()

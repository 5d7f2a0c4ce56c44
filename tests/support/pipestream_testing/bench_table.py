"""The results of benchmarks as one table: a row for each target, with the figures that it compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pipestream_testing.bench import Measured, Scenario, Target, number

COLUMNS = ("scenario", "target", "found", "wanted", "", "ours", "spread", "rivals")
_MOST_RIVALS = 60


def rows(scenarios: Iterable[Scenario], failed: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Return a row for each target, for each scenario without one, and for each benchmark that failed."""
    found: list[tuple[str, ...]] = []
    for scenario in scenarios:
        found += [_target_row(scenario, target) for target in scenario.targets] or [_plain_row(scenario)]
    return found + [(name, reason, "", "", "FAILED", "", "", "") for name, reason in sorted(failed.items())]


def _target_row(scenario: Scenario, target: Target) -> tuple[str, ...]:
    verdict = "reached" if target.is_met else "MISSED"
    row = (scenario.name, target.what, f"{target.found:.3g}", target.limit, verdict)
    if not target.ours:
        return (*row, "", "", "")
    ours = scenario.find(target.ours, target.unit)
    rivals = [scenario.find(target.rival, target.unit)] if target.rival else []
    return (*row, f"{number(ours.median)} {ours.unit}", ours.spread, _rivals(rivals))


def _plain_row(scenario: Scenario) -> tuple[str, ...]:
    ours = next((each for each in scenario.measured if not each.is_rival), scenario.measured[0])
    rivals = [each for each in scenario.measured if each.is_rival and each.unit == ours.unit]
    figure = f"{number(ours.median)} {ours.unit}"
    return scenario.name, ours.contender, "", "", "", figure, ours.spread, _rivals(rivals)


def _rivals(rivals: Sequence[Measured]) -> str:
    text = "; ".join(
        f"{each.contender}: {number(each.median)}" + (f" ({each.spread})" if each.spread else "") for each in rivals
    )
    return text if len(text) <= _MOST_RIVALS else f"{text[: _MOST_RIVALS - 1]}…"


def lines(scenarios: Iterable[Scenario], failed: Mapping[str, str]) -> list[str]:
    """Return the table for a terminal. A scenario's name stands in its first row only."""
    table = [COLUMNS, *rows(scenarios, failed)]
    widths = [max(len(row[index]) for row in table) for index in range(len(COLUMNS))]
    # The reason of a failure has the rest of its line.
    widths[1] = max(len(row[1]) for row in table if row[4] != "FAILED")
    found, last = [], ""
    for row in table:
        cells = ("" if row[0] == last else row[0], *row[1:])
        last = row[0]
        if row[4] == "FAILED":
            found.append(f"{row[0]:{widths[0]}}  FAILED: {row[1]}")
            continue
        found.append("  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())
    targets = [row[4] for row in table[1:] if row[4] in ("reached", "MISSED")]
    count = f"{targets.count('reached')} of {len(targets)} targets reached"
    return [*found, "", f"{count}; {len(failed)} benchmarks failed"]

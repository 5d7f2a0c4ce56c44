"""What a benchmark measures and what it should reach: kept by scenario, printed as a table, written to a file."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

IS_QUICK = os.environ.get("BENCH") == "quick"


Value = TypeVar("Value")


def sized(full: Value, quick: Value) -> Value:
    """Return the size of a benchmark: ``make bench-quick`` measures less of everything."""
    return quick if IS_QUICK else full


@dataclass(frozen=True, slots=True)
class Measured:
    """What one contender did, in every round."""

    contender: str
    unit: str
    rounds: tuple[float, ...]
    is_rival: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> str:
        """The lowest and the highest round. Empty after a single one."""
        return f"{number(min(self.rounds))} to {number(max(self.rounds))}" if len(self.rounds) > 1 else ""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that a scenario should reach. A miss is shown, and fails nothing: a slow machine is not a defect."""

    what: str
    found: float
    wanted: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        verdict = "reached" if self.is_met else "MISSED"
        return f"{verdict}: {self.what} {self.found:.3g} (wanted {sign} {self.wanted:g})"


@dataclass(slots=True)
class Scenario:
    """One question, its contenders, and what should come out."""

    name: str
    title: str
    measured: list[Measured] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    """Of the machine in the minute before the scenario was made, which many benchmarks spend measuring."""

    def add(self, contender: str, unit: str, *rounds: float, is_rival: bool = False) -> Measured:
        self.measured.append(Measured(contender, unit, rounds, is_rival))
        return self.measured[-1]

    def want(self, what: str, found: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        wanted = at_least if at_least is not None else at_most
        assert wanted is not None
        self.targets.append(Target(what, found, wanted, at_most=at_least is None))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def compare(self, unit: str, contenders: Mapping[str, Callable[[], float]], rounds: int, ours: str) -> None:
        """Measure contenders in turns, so that whatever else the machine does meanwhile falls on all alike."""
        found: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, measure in contenders.items():
                found[name].append(measure())
        for name, values in found.items():
            self.add(name, unit, *values, is_rival=name != ours)

    def median(self, contender: str) -> float:
        return next(each.median for each in self.measured if each.contender == contender)

    def lines(self) -> list[str]:
        """Return the scenario as it is printed."""
        width = max((len(each.contender) for each in self.measured), default=0)
        rows = [
            f"  {each.contender:{width}}  {number(each.median):>10} {each.unit}  {each.spread}".rstrip()
            for each in self.measured
        ]
        return [self.title, *rows, *(f"  {each}" for each in self.targets), *(f"  {each}" for each in self.notes)]


def number(value: float) -> str:
    """Write a figure with three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_results(scenarios: list[Scenario], folder: Path) -> None:
    """Write ``results.json``. Scenarios that did not run this time keep what they had there."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    kept: dict[str, Any] = json.loads(file.read_text())["scenarios"] if file.exists() else {}
    for each in scenarios:
        kept[each.name] = asdict(each) | {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "date": datetime.now(UTC).date().isoformat(),
            "size": "quick" if IS_QUICK else "full",
        }
    file.write_text(json.dumps({"scenarios": dict(sorted(kept.items()))}, indent=1, ensure_ascii=False) + "\n")

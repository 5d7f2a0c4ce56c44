"""What a benchmark measures and what it should reach: kept by scenario, and written to ``results.json``."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping
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
    ours: str = ""
    rival: str = ""
    """The contenders that ``found`` compares, where it is the ratio of two."""
    unit: str = ""

    @property
    def is_met(self) -> bool:
        return self.found <= self.wanted if self.at_most else self.found >= self.wanted

    @property
    def limit(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.wanted:g}"


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
    machine: str = field(default_factory=lambda: f"{platform.machine()}, {os.cpu_count()} cores")
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    size: str = "quick" if IS_QUICK else "full"

    def add(self, contender: str, unit: str, *rounds: float, is_rival: bool = False) -> Measured:
        self.measured.append(Measured(contender, unit, rounds, is_rival))
        return self.measured[-1]

    def want(self, what: str, found: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        """Note what a figure should be."""
        self._want(Target(what, found, *_limit(at_least, at_most)))

    def want_of(
        self,
        what: str,
        contender: str,
        unit: str = "",
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Note what the median of a contender should be."""
        found = self.find(contender, unit)
        self._want(Target(what, found.median, *_limit(at_least, at_most), contender, "", found.unit))

    def want_ratio(
        self,
        what: str,
        ours: str,
        rival: str,
        unit: str = "",
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Note what the ratio of two contenders' medians should be.

        :param unit: of the figures to compare, where contenders have several.
        """
        first, second = self.find(ours, unit), self.find(rival, unit)
        limit = _limit(at_least, at_most)
        self._want(Target(what, first.median / second.median, *limit, ours, rival, first.unit))

    def _want(self, target: Target) -> None:
        self.targets.append(target)

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

    def find(self, contender: str, unit: str = "") -> Measured:
        """Return what a contender did; the first of its figures, unless a unit says which."""
        return next(each for each in self.measured if each.contender == contender and unit in ("", each.unit))

    def median(self, contender: str, unit: str = "") -> float:
        return self.find(contender, unit).median

    @classmethod
    def load_from(cls, fields: Mapping[str, Any]) -> Scenario:
        """Return the scenario that ``asdict`` has made into JSON."""
        measured = [Measured(**{**each, "rounds": tuple(each["rounds"])}) for each in fields["measured"]]
        targets = [Target(**each) for each in fields["targets"]]
        return cls(**{**fields, "measured": measured, "targets": targets})


def _limit(at_least: float | None, at_most: float | None) -> tuple[float, bool]:
    wanted = at_least if at_least is not None else at_most
    assert wanted is not None
    return wanted, at_least is None


def number(value: float) -> str:
    """Write a figure with three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@dataclass(slots=True)
class Results:
    """What ``results.json`` holds: the last figures of every scenario, and which benchmarks failed when last run."""

    scenarios: dict[str, Scenario] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The reason, by the name of the benchmark."""

    @classmethod
    def read(cls, file: Path) -> Results:
        if not file.exists():
            return cls()
        found = json.loads(file.read_text())
        return cls(
            {name: Scenario.load_from(fields) for name, fields in found["scenarios"].items()}, found.get("failed", {})
        )

    def keep(self, benchmark: str, scenarios: Iterable[Scenario], failure: str = "") -> None:
        """Take over how a benchmark ended. What did not run this time keeps its figures."""
        self.failed.pop(benchmark, None)
        if failure:
            self.failed[benchmark] = failure
        for each in scenarios:
            if each.measured:
                self.scenarios[each.name] = each

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        fields = {
            "scenarios": {name: asdict(self.scenarios[name]) for name in sorted(self.scenarios)},
            "failed": dict(sorted(self.failed.items())),
        }
        file.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n")

"""Collects what the benchmarks measure: a table at the end, ``bench/results.json`` and a plot per scenario."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pipestream_testing.bench import Scenario, write_results
from pipestream_testing.bench_plots import write_plots

FOLDER = Path(__file__).resolve().parents[2] / "bench"
SCENARIOS = pytest.StashKey[list[Scenario]]()
OF_THIS_TEST = pytest.StashKey[list[Scenario]]()


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> Callable[[str, str], Scenario]:
    """Make a scenario by name (of its plot) and title. It is reported at the end if the benchmark went through."""
    made = request.node.stash.setdefault(OF_THIS_TEST, [])

    def make(name: str, title: str) -> Scenario:
        made.append(Scenario(name, title))
        return made[-1]

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.passed:
        item.config.stash.setdefault(SCENARIOS, []).extend(item.stash.get(OF_THIS_TEST, []))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    scenarios = [each for each in config.stash.get(SCENARIOS, []) if each.measured]
    if not scenarios:
        return
    terminalreporter.section("bench")
    for scenario in scenarios:
        for line in (*scenario.lines(), ""):
            terminalreporter.write_line(line)
    targets = [target for scenario in scenarios for target in scenario.targets]
    reached = sum(target.is_met for target in targets)
    terminalreporter.write_line(f"bench: {len(scenarios)} scenarios, {reached} of {len(targets)} targets reached")
    write_results(scenarios, FOLDER)
    write_plots(scenarios, FOLDER / "plots")

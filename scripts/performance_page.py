"""Write docs/performance.md's tables, the README's figures and the plots in bench/plots from bench/results.json.

``make bench`` and ``make bench-quick`` run it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pipestream_testing.bench import Results, Scenario, Target, number
from pipestream_testing.bench_plots import plots, write_plots
from pipestream_testing.bench_table import COLUMNS, rows

ROOT = Path(__file__).resolve().parent.parent
PAGE, README, BENCH = ROOT / "docs" / "performance.md", ROOT / "README.md", ROOT / "bench"
BEGIN, END = "<!-- generated: results -->", "<!-- end -->"
BUSY = 6.0
"""Above this load, other work has probably had a part of two cores."""

LOOP, QUIX = "loop, a commit each", "Quix Streams, exactly once"
HIGHLIGHTS = (
    ("drain-s3-1kb", "documents of 1 KB on S3: fetch, five conditions, save, publish", "pipestream", (LOOP, QUIX)),
    ("segments-s3-1000", "the same, `storage: segments`", "segments", ("get and put alone",)),
    (
        "pass-through",
        "inline documents of 1 KB, passed on exactly once",
        "pipestream",
        ("transactional loop", QUIX, LOOP),
    ),
    (
        "module-concurrency",
        "a gRPC module of 20 ms, one partition",
        "pipestream, concurrency 32",
        ("one call at a time",),
    ),
    ("ordered-read", "four partitions read in order of time", "pipestream", ("plain loop and one sort", "kafkars")),
    ("engine", "documents handed over by gRPC, committed to Kafka", "inline, 2 KB", ("echo, 2 KB",)),
    ("warm-spark", "100 documents on Spark, from start to end", "Spark Connect", ("cold submits",)),
    ("idle-check-50", "find out that nothing waits in 50 topics", "pipestream", ()),
    ("latency-sidecar", "publish to committed output, p50", "pipestream sidecar", ()),
)
"""The README's rows: the scenario, what it is about, our contender, and those beside it."""
SHOWN = ("drain-s3-1kb", "pass-through")
"""Whose plots are in the README: one that we win, and one that we do not."""


def results_text(results: Results) -> str:
    """Return the table of all targets, then a section per scenario: its figures, its targets, and its plots."""
    if not results.scenarios:
        return "Nothing is measured yet: run `make bench-quick`."
    return "\n\n".join([_summary(results), *map(_section, results.scenarios.values())])


def _summary(results: Results) -> str:
    table = [COLUMNS, ("---",) * len(COLUMNS), *rows(results.scenarios.values(), results.failed)]
    bold = {"MISSED": "**missed**", "FAILED": "**failed**"}
    return "\n".join(f"| {' | '.join(bold.get(cell, cell.replace('|', '/')) for cell in row)} |" for row in table)


def _section(scenario: Scenario) -> str:
    table = ["| contender | median | unit | lowest to highest | rounds |", "| --- | ---: | --- | ---: | ---: |"]
    for each in scenario.measured:
        contender = each.contender if each.is_rival else f"**{each.contender}**"
        table.append(f"| {contender} | {number(each.median)} | {each.unit} | {each.spread} | {len(each.rounds)} |")
    said = [*map(_target, scenario.targets), *scenario.notes, _circumstances(scenario)]
    pictures = [f"![{scenario.title}](../bench/plots/{name})" for name in plots(scenario)]
    title = f"### `{scenario.name}`: {scenario.title}"
    return "\n".join([title, "", *table, "", *(f"- {each}" for each in said), "", *pictures])


def _target(target: Target) -> str:
    verdict = "reached" if target.is_met else "**missed**"
    return f"{verdict}: {target.what} {target.found:.3g} (wanted {target.limit})"


def _circumstances(scenario: Scenario) -> str:
    busy = "; **the machine was busy with other work**" if scenario.load > BUSY else ""
    return f"{scenario.size} form, {scenario.date}, {scenario.machine}, load {scenario.load:g}{busy}"


def highlights_text(results: Results) -> str:
    """Return the README's table and plots. A rival's figure that is better than ours is in bold."""
    rows = ["| job | pipestream | instead |", "| --- | ---: | --- |"]
    for name, job, ours, rivals in HIGHLIGHTS:
        if name in results.scenarios:
            rows.append(_highlight(results.scenarios[name], job, ours, rivals))
    found = [results.scenarios[name] for name in SHOWN if name in results.scenarios]
    pictures = [f"![{each.title}](bench/plots/{each.name}.svg)" for each in found]
    return "\n\n".join(["\n".join(rows), *pictures])


def _highlight(scenario: Scenario, job: str, ours: str, rivals: tuple[str, ...]) -> str:
    own = scenario.find(ours)
    less_is_better = not own.unit.endswith("/s")
    beside = []
    for rival in scenario.measured:
        if rival.contender not in rivals or rival.unit != own.unit:
            continue
        is_ahead = rival.median < own.median if less_is_better else rival.median > own.median
        beside.append(f"{rival.contender}: {f'**{number(rival.median)}**' if is_ahead else number(rival.median)}")
    return f"| {job} | {number(own.median)} {own.unit} | {'; '.join(beside) or '-'} |"


def fill(page: str, text: str) -> str:
    """Return the page with its generated part replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"a page has no part {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> None:
    results = Results.read(BENCH / "results.json")
    PAGE.write_text(fill(PAGE.read_text(), results_text(results)))
    README.write_text(fill(README.read_text(), highlights_text(results)))
    write_plots(results.scenarios.values(), BENCH / "plots")


if __name__ == "__main__":
    main()

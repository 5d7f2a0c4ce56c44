from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from pipestream_testing.bench import Results, Scenario
from pipestream_testing.bench_plots import write_plots
from pipestream_testing.bench_table import lines

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "performance_page.py"))


def scenario(name="read", load=1.5):
    made = Scenario(name, "Read", load=load, machine="x86_64, 2 cores", date="2026-11-18", size="quick")
    made.add("ours", "records/s", 100.0, 300.0, 200.0)
    made.add("loop", "records/s", 50.0, is_rival=True)
    made.add("ours", "MB", 7.0)
    made.want_ratio("times the loop", "ours", "loop", at_least=5)
    made.want_of("megabytes", "ours", "MB", at_most=10)
    made.note("in order")
    return made


def results(**options):
    return Results({"read": scenario(**options)})


def test_a_section_has_median_spread_targets_and_plots(script):
    text = script["results_text"](results())

    assert "| **ours** | 200 | records/s | 100 to 300 | 3 |" in text
    assert "| loop | 50 | records/s |  | 1 |" in text
    assert "- **missed**: times the loop 4 (wanted ≥ 5)" in text
    assert "- reached: megabytes 7 (wanted ≤ 10)" in text
    assert "- in order" in text
    assert "](../bench/plots/read.svg)" in text
    assert "](../bench/plots/read-2.svg)" in text


def test_the_page_begins_with_a_row_for_each_target_and_each_failure(script):
    found = results()
    found.keep("bench_write::test_write", [], "AssertionError: lost")

    text = script["results_text"](found)

    assert "| read | times the loop | 4 | ≥ 5 | **missed** | 200 records/s | 100 to 300 | loop: 50 |" in text
    assert "| read | megabytes | 7 | ≤ 10 | reached | 7 MB |  |  |" in text
    assert "| bench_write::test_write | AssertionError: lost |  |  | **failed** |  |  |  |" in text


@pytest.mark.parametrize(("load", "is_said"), [(1.5, False), (9.0, True)])
def test_figures_of_a_busy_machine_say_so(script, load, is_said):
    assert ("busy with other work" in script["results_text"](results(load=load))) is is_said


def test_the_readme_marks_a_rival_that_is_ahead(script):
    made = Scenario("pass-through", "Pass on")
    made.add("pipestream", "documents/s", 100.0)
    made.add("transactional loop", "documents/s", 300.0, is_rival=True)
    made.add("Quix Streams, exactly once", "documents/s", 50.0, is_rival=True)
    made.add("loop, a commit each", "documents/s", 5.0, is_rival=True)

    text = script["highlights_text"](Results({"pass-through": made}))

    assert "| 100 documents/s | transactional loop: **300**; Quix Streams, exactly once: 50; loop" in text
    assert "](bench/plots/pass-through.svg)" in text


@pytest.mark.parametrize("name", ["README.md", "docs/performance.md"])
def test_a_page_has_a_place_for_the_results_and_explains_how_to_get_them(script, name):
    page = (ROOT / name).read_text()

    assert "make bench-quick" in page
    assert script["fill"](page, "these").count("these\n<!-- end -->") == 1


def test_the_table_counts_targets_and_failures():
    text = "\n".join(lines([scenario()], {"bench_write::test_write": "AssertionError: lost"}))

    assert "FAILED: AssertionError: lost" in text
    assert "1 of 2 targets reached; 1 benchmarks failed" in text


def test_results_are_kept_until_their_benchmark_runs_again(tmp_path):
    file = tmp_path / "results.json"
    first = Results()
    first.keep("bench_read", [scenario()])
    first.keep("bench_write", [], "AssertionError: lost")
    first.write(file)

    again = Results.read(file)
    again.keep("bench_write", [scenario("write")])
    again.write(file)

    assert set(json.loads(file.read_text())["scenarios"]) == {"read", "write"}
    assert Results.read(file) == again
    assert not again.failed


def test_plots_of_scenarios_that_are_no_more_are_deleted(tmp_path):
    (tmp_path / "old.svg").write_text("<svg/>")

    write_plots([scenario()], tmp_path)

    assert sorted(file.name for file in tmp_path.iterdir()) == ["read-2.svg", "read.svg"]


def test_the_results_that_are_kept_can_be_read():
    assert Results.read(ROOT / "bench" / "results.json").scenarios

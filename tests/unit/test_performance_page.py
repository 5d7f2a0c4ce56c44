from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "performance_page.py"))


def scenario(load):
    return {
        "title": "Read",
        "measured": [
            {"contender": "ours", "unit": "records/s", "rounds": [100.0, 300.0, 200.0], "is_rival": False},
            {"contender": "loop", "unit": "records/s", "rounds": [50.0], "is_rival": True},
        ],
        "targets": [{"what": "times the loop", "found": 4.0, "wanted": 5.0, "at_most": False}],
        "notes": ["in order"],
        "machine": "x86_64, 2 cores",
        "load": load,
        "date": "2026-11-18",
        "size": "quick",
    }


def test_a_section_has_median_spread_targets_and_plot(script):
    text = script["results_text"]({"read": scenario(1.5)})

    assert "| **ours** | 200 | records/s | 100 to 300 | 3 |" in text
    assert "| loop | 50 | records/s |  | 1 |" in text
    assert "- **missed**: times the loop 4 (wanted ≥ 5)" in text
    assert "- in order" in text
    assert "](../bench/plots/read.svg)" in text


@pytest.mark.parametrize(("load", "is_said"), [(1.5, False), (9.0, True)])
def test_figures_of_a_busy_machine_say_so(script, load, is_said):
    assert ("busy with other work" in script["results_text"]({"read": scenario(load)})) is is_said


def test_the_page_has_a_place_for_the_results_and_explains_how_to_get_them(script):
    page = (ROOT / "docs" / "performance.md").read_text()

    assert "make bench-quick" in page
    assert script["fill"](page, "these").count("these\n<!-- end -->") == 1

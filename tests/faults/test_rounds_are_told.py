"""What a test run says of its rounds at its end, on which every proof here relies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipestream_testing.oracle import Rounds, Verdict


@pytest.fixture
def found():
    """Two faults, of which one lost a document, doubled two and tore the ledger once."""
    rounds = Rounds()
    for seconds in (1.0, 9.0, 2.0):
        rounds.add("clean", Verdict(0, 0), seconds)
    for bad in (Verdict(1, 0), Verdict(0, 2, ("a gap",))):
        with pytest.raises(AssertionError, match="dirty"):
            rounds.add("dirty", bad)
    rounds.add_seed("tests/faults/test_x.py::test_y", 4711)
    return rounds


def test_the_table_has_a_row_for_each_fault_and_tells_what_failed(found):
    rows = [line.split(maxsplit=5) for line in found.summary()[1:3]]

    assert rows == [
        ["clean", "3", "0", "0", "tiles", "2.0 (worst 9.0)"],
        ["dirty", "2", "1", "2", "torn", "-"],
    ]


def test_the_last_line_sums_up_all_rounds(found):
    assert found.line() == "faults: 5 rounds, 1 lost, 2 duplicated, ledger torn in 1 rounds"


def test_clean_rounds_say_so_in_the_last_line():
    rounds = Rounds()
    rounds.add("clean", Verdict(0, 0))

    assert rounds.line() == "faults: 1 rounds, 0 lost, 0 duplicated, ledger tiles"


def test_tests_that_failed_without_a_verdict_are_in_the_last_line(found):
    assert found.line(failed_tests=3).endswith("; 3 tests failed")


def test_without_rounds_nothing_is_said():
    assert (Rounds().summary(), Rounds().line(failed_tests=1)) == ([], "")


def test_a_seed_is_printed_as_a_command_also_without_a_verdict():
    rounds = Rounds()
    rounds.add_seed("tests/faults/test_x.py::test_y", 4711)

    assert rounds.summary()[-1].endswith("FAULTS_SEED=4711 .venv/bin/pytest tests/faults/test_x.py::test_y")


def test_what_another_process_found_is_added_to_our_own(found):
    both = Rounds()
    both.add("clean", Verdict(0, 0), 5.0)

    both.load(found.dump())

    assert len(both.verdicts["clean"]) == 4
    assert both.verdicts["dirty"] == found.verdicts["dirty"]
    assert both.seeds == found.seeds


TOLD = """
from pipestream_testing.oracle import Verdict

def test_one(rounds):
    rounds.add_seed("test_of_one", 1)
    rounds.add("a fault", Verdict(0, 0))

def test_other(rounds):
    rounds.add("a fault", Verdict(2, 0))
"""


def test_a_test_run_ends_with_what_its_workers_found(pytestconfig, tmp_path):
    (tmp_path / "test_told.py").write_text(TOLD)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n1", "-p", "tests.conftest", "--rootdir", tmp_path]

    done = subprocess.run(
        [*command, tmp_path],
        cwd=pytestconfig.rootpath,
        # Other plugins take longer to load than all of this takes.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    *_, line = done.stdout.splitlines()
    assert line == "faults: 2 rounds, 2 lost, 0 duplicated, ledger tiles; 1 tests failed", done.stdout + done.stderr
    assert "FAULTS_SEED=1 .venv/bin/pytest test_of_one" in done.stdout

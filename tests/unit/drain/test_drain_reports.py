from __future__ import annotations

import pytest

from pipestream.drain.report import DrainFailure, DrainReport, from_fields, join_reports, read_outcome, write_outcome
from pipestream.errors import LedgerConflict, TasksFailed
from pipestream.ledger import Tally

REPORT = DrainReport("drained", "intake.files", "", 2, 1, Tally(7, {"e": 5, "happy-end": 1}, 1), 1.5, "run-1", "sample")


def test_the_fields_of_a_report_are_those_that_scripts_read():
    assert list(REPORT.to_fields().items()) == [
        ("status", "drained"),
        ("topic", "intake.files"),
        ("reason", ""),
        ("ranges", 2),
        ("recovered_ranges", 1),
        ("records", 7),
        ("documents_out", {"e": 5, "happy-end": 1}),
        ("dead_letters", 1),
        ("seconds", 1.5),
        ("run_id", "run-1"),
        ("lane", "sample"),
        ("tasks", ""),
    ]


@pytest.mark.parametrize(
    "ended", [REPORT, DrainFailure.of(TasksFailed("gone")), DrainFailure.of(LedgerConflict("no"))], ids=str
)
def test_an_outcome_is_read_as_it_was_written(tmp_path, ended):
    file = tmp_path / "outcome.json"

    write_outcome(file, ended)

    assert read_outcome(file) == ended


def test_a_job_that_died_has_written_nothing(tmp_path):
    assert read_outcome(tmp_path / "outcome.json") is None


def test_fields_of_a_newer_version_are_left_out():
    assert from_fields({**REPORT.to_fields(), "new": 1}) == REPORT


@pytest.mark.parametrize("values", [{}, {"status": "odd"}, [], "drained"], ids=repr)
def test_something_else_is_not_taken_for_an_outcome(values):
    with pytest.raises(ValueError, match="another version"):
        from_fields(values)


def test_the_reports_of_slots_add_up():
    other = DrainReport("drained", "intake.files", "", 1, 0, Tally(3, {"e": 2, "f": 1}, 0))
    total = DrainReport("skipped", "intake.files", seconds=2.0, run_id="run-1", lane="sample")

    joined = join_reports([REPORT, other], ["slot 2 is taken"], total)

    assert joined == DrainReport(
        "drained",
        "intake.files",
        "slot 2 is taken",
        3,
        1,
        Tally(10, {"e": 7, "happy-end": 1, "f": 1}, 1),
        2.0,
        "run-1",
        "sample",
    )


def test_a_run_that_got_no_slot_is_skipped_and_says_why():
    joined = join_reports([], ["a is taken", "b is taken"], DrainReport("skipped", "t"))

    assert (joined.status, joined.reason) == ("skipped", "a is taken; b is taken")

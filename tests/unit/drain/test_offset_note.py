from __future__ import annotations

import pytest

from pipestream.drain.note import read_note, write_note
from pipestream.ledger import Tally

TALLY = Tally(10, {"a--b": 7, "happy-end": 2}, 1)


def test_a_note_gives_back_the_tally_of_its_range():
    assert read_note(write_note("plan-1", 5, TALLY), 5, "plan-1") == TALLY


def test_a_note_of_another_plan_or_another_start_says_nothing():
    note = write_note("plan-1", 5, TALLY)

    assert read_note(note, 6, "plan-1") is None
    assert read_note(note, 5, "plan-2") is None


def test_recovery_takes_any_plans_note():
    assert read_note(write_note("plan-1", 5, TALLY), 5) == TALLY


def test_a_note_stays_below_the_brokers_limit_however_many_edges_there_are():
    note = write_note("plan-1", 5, Tally(10, {f"edge-{n:04}": 1 for n in range(1_000)}, 0))

    assert len(note) < 4_096
    assert read_note(note, 5) is None


@pytest.mark.parametrize("note", ["", "null", "[]", "not json", '{"start": 5}'])
def test_a_note_that_is_not_ours_says_nothing(note):
    assert read_note(note, 5) is None

from __future__ import annotations

import pytest

from pipestream.drain.note import note_start, read_note, write_note
from pipestream.ledger import Tally

TALLY = Tally(10, {"a--b": 7, "happy-end": 2}, 1)


def test_a_note_gives_back_the_tally_of_its_range():
    assert read_note(write_note(5, TALLY), 5) == TALLY
    assert note_start(write_note(5, TALLY)) == 5


def test_a_note_of_a_range_that_began_elsewhere_says_nothing():
    assert read_note(write_note(5, TALLY), 6) is None


def test_a_note_stays_below_the_brokers_limit_however_many_edges_there_are():
    note = write_note(5, Tally(10, {f"edge-{n:04}": 1 for n in range(1_000)}, 0))

    assert len(note) < 4_096
    assert read_note(note, 5) is None
    assert note_start(note) == 5


@pytest.mark.parametrize("note", ["", "null", "[]", "not json", '{"start": 5}'])
def test_a_note_that_is_not_ours_says_nothing(note):
    assert read_note(note, 5) is None

from __future__ import annotations

import pytest

from pipestream.drain.range_task import metadata_start, read_metadata, write_metadata
from pipestream.ledger import Tally

TALLY = Tally(10, {"a--b": 7, "happy-end": 2}, 1)


def test_metadata_gives_back_the_tally_of_its_range():
    assert read_metadata(write_metadata((5, TALLY)), 5) == TALLY
    assert metadata_start(write_metadata((5, TALLY))) == 5


def test_metadata_of_a_range_that_began_elsewhere_says_nothing():
    assert read_metadata(write_metadata((5, TALLY)), 6) is None


def test_metadata_stays_below_the_brokers_limit_however_many_edges_there_are():
    metadata = write_metadata((5, Tally(10, {f"edge-{n:04}": 1 for n in range(1_000)}, 0)))

    assert len(metadata) < 4_096
    assert read_metadata(metadata, 5) is None
    assert metadata_start(metadata) == 5


@pytest.mark.parametrize("metadata", ["", "null", "[]", "not json", '{"start": 5}'])
def test_metadata_that_is_not_ours_says_nothing(metadata):
    assert read_metadata(metadata, 5) is None


def test_metadata_counts_from_every_start_that_the_ledgers_head_may_be_at():
    metadata = write_metadata((5, TALLY + TALLY), (9, TALLY), (12, None))

    assert metadata_start(metadata) == 5
    assert read_metadata(metadata, 5) == TALLY + TALLY
    assert read_metadata(metadata, 9) == TALLY
    assert read_metadata(metadata, 12) is None
    assert read_metadata(metadata, 7) is None

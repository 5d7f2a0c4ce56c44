from __future__ import annotations

import random

import pytest

from pipestream.errors import DocumentMissing
from pipestream.objects.ranges import ByteRange, coalesce
from pipestream.objects.store import open_store
from pipestream.settings import Settings


@pytest.fixture
def store(tmp_path):
    with open_store(f"file://{tmp_path / 'objects'}", Settings()) as opened:
        yield opened


def spans(*pairs, key="a"):
    return [ByteRange(key, start, end) for start, end in pairs]


def test_ranges_with_small_gaps_are_read_at_once():
    assert coalesce(spans((0, 10), (15, 20)), gap_bytes=5) == spans((0, 20))


def test_ranges_with_larger_gaps_are_read_apart():
    assert coalesce(spans((0, 10), (16, 20)), gap_bytes=5) == spans((0, 10), (16, 20))


def test_ranges_of_different_objects_are_read_apart():
    wanted = [*spans((0, 10)), *spans((10, 20), key="b")]

    assert coalesce(wanted, gap_bytes=5) == wanted


def test_a_read_does_not_grow_beyond_its_limit():
    assert coalesce(spans((0, 10), (10, 20), (20, 30)), gap_bytes=5, most_bytes=20) == spans((0, 20), (20, 30))


def test_every_wanted_range_is_within_one_read_whatever_the_order():
    choose = random.Random(7)
    for _ in range(200):
        starts = [choose.randrange(1_000) for _ in range(choose.randrange(1, 20))]
        wanted = [ByteRange(choose.choice("ab"), start, start + choose.randrange(60)) for start in starts]

        reads = coalesce(wanted, gap_bytes=choose.randrange(50), most_bytes=200)

        assert all(any(read.contains(each) for read in reads) for each in wanted)
        assert reads == sorted(reads)


def test_ranges_of_a_folder_are_read_in_their_order(store):
    store.put("x/a", b"0123456789")

    assert store.get_ranges([ByteRange("x/a", 4, 6), ByteRange("x/a", 0, 2)]) == [b"45", b"01"]


def test_a_range_that_ends_behind_its_object_is_shorter(store):
    store.put("x/a", b"0123456789")

    assert store.get_range(ByteRange("x/a", 8, 20)) == b"89"
    assert store.get_range(ByteRange("x/a", 20, 30)) == b""


def test_a_range_of_an_object_that_is_not_there_is_an_error_in_its_place(store):
    store.put("x/a", b"0123456789")

    there, missing = store.get_ranges([ByteRange("x/a", 0, 2), ByteRange("x/b", 0, 2)])

    assert there == b"01"
    assert isinstance(missing, DocumentMissing)

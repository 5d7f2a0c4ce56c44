from __future__ import annotations

from pipestream.drain.cut import FEWEST_RECORDS, FIRST_RECORDS, ChunkSize, Pieces
from pipestream.kafka.records import InputRecord


def records(*places):
    return [InputRecord("t", partition, offset, 0, None, b"") for partition, offset in places]


def test_a_cut_commits_what_was_taken_and_the_last_part_the_end_of_the_range():
    read = Pieces(iter([(records((0, 5), (1, 8), (0, 6)), {("t", 0): 9, ("t", 1): 9})]))

    first, second = read.take(2), read.take(2)

    assert (len(first.records), first.ends) == (2, {0: 6, 1: 9})
    assert (len(second.records), second.ends) == (1, {0: 9, 1: 9})
    assert read.take(2) is None


def test_what_is_put_back_comes_first():
    read = Pieces(iter([(records((0, 0), (0, 1), (0, 2)), {("t", 0): 3}), (records((0, 3)), {("t", 0): 4})]))
    piece, rest = read.take(2).split(1)
    read.put_back(rest)

    assert [each.offset for each in piece.records] == [0]
    assert [each.offset for each in read.take(9).records] == [1]
    assert [each.offset for each in read.take(9).records] == [2]
    assert [each.offset for each in read.take(9).records] == [3]


def test_an_empty_chunk_still_commits_the_end_of_its_range():
    assert Pieces(iter([([], {("t", 0): 7})])).take(10).ends == {0: 7}


def test_chunks_grow_in_a_backlog_of_quick_records_up_to_the_limit():
    size = ChunkSize(1_800, 10**9)
    sizes = [size.records]
    for _ in range(3):
        size.adapt(size.records, 1_000, seconds=0.1)
        sizes.append(size.records)

    assert sizes == [FIRST_RECORDS, 1_000, 1_800, 1_800]


def test_chunks_of_slow_records_shrink_so_that_their_outputs_do_not_wait():
    size = ChunkSize(10_000, 10**9)
    for _ in range(20):
        size.adapt(size.records, 1_000, seconds=60)

    assert size.records == FEWEST_RECORDS


def test_a_chunk_that_is_not_full_does_not_change_the_size():
    size = ChunkSize(10_000, 10**9)
    size.adapt(3, 30, seconds=0.001)
    size.adapt(3, 30, seconds=60)

    assert size.records == FIRST_RECORDS


def test_large_documents_make_small_chunks_and_small_ones_large_chunks_again():
    size = ChunkSize(10_000, 16_000_000)
    size.adapt(4, 40_000_000, seconds=1)
    assert size.records == 1
    size.adapt(1, 1_000, seconds=1)
    assert size.records == FIRST_RECORDS


def test_a_limit_below_the_first_size_holds_from_the_start():
    assert ChunkSize(10, 10**9).records == 10

"""Pieces between the task that processes and the task that commits: nothing twice, nothing missing, in order."""

from __future__ import annotations

import threading

import pytest

from pipestream.drain.chunk import ChunkResult
from pipestream.drain.pieces import ProcessedPiece, gather_pieces, place_of
from pipestream.engine.carry import RecordResult
from pipestream.errors import ModuleDown, ModuleFailed, ModuleUnavailable, TasksFailed
from pipestream.kafka.records import InputRecord, OutputRecord

PLENTY = {"most_records": 1_000, "most_bytes": 1_000_000}


def piece(start, end, error=None, seconds=0.0):
    result = ChunkResult()
    for offset in range(start, end):
        record = InputRecord("intake.a", 0, offset, 0, b"key", b"value")
        result.put(RecordResult(record, outputs=[OutputRecord("out", None, b"%d" % offset)], sent=["edge"]))
    return ProcessedPiece(start, end, result, error, seconds).encode()


def values(gathered):
    return [int(output.value) for output in gathered.result.outputs]


def test_pieces_are_joined_into_few_transactions():
    (gathered,) = gather_pieces([piece(0, 3, seconds=1.0), piece(3, 5, seconds=2.0)], 0, 5, **PLENTY)

    assert values(gathered) == [0, 1, 2, 3, 4]
    assert (gathered.end, gathered.seconds) == (5, 3.0)


def test_a_transaction_is_cut_by_records_and_by_bytes():
    pieces = [piece(0, 3), piece(3, 6), piece(6, 9)]

    assert [each.end for each in gather_pieces(pieces, 0, 9, most_records=4, most_bytes=1_000_000)] == [6, 9]
    assert [each.end for each in gather_pieces(pieces, 0, 9, most_records=100, most_bytes=1)] == [3, 6, 9, 9]


def test_records_that_an_earlier_try_has_committed_are_dropped_one_by_one():
    (gathered,) = gather_pieces([piece(0, 3), piece(3, 6)], 4, 6, **PLENTY)

    assert values(gathered) == [4, 5]
    assert gathered.result.tally(0).records == 2


def test_nothing_behind_a_gap_is_committed():
    pieces = gather_pieces([piece(0, 3), piece(6, 9)], 0, 9, **PLENTY)

    assert values(next(pieces)) == [0, 1, 2]
    with pytest.raises(TasksFailed, match="from 3 to 6 are missing"):
        next(pieces)


def test_a_range_whose_last_sub_range_is_missing_is_not_taken_for_done():
    pieces = gather_pieces([piece(0, 3)], 0, 9, **PLENTY)

    assert values(next(pieces)) == [0, 1, 2]
    with pytest.raises(TasksFailed, match="from 3 to 9 are missing"):
        next(pieces)


def test_what_was_processed_before_an_error_is_committed_and_nothing_behind_it():
    error = ModuleDown("grpc:parse", "no answer", 3.0)

    (gathered,) = gather_pieces([piece(0, 3), piece(3, 3, error), piece(5, 9)], 0, 9, **PLENTY)

    assert values(gathered) == [0, 1, 2]
    assert isinstance(gathered.error, ModuleDown)
    assert str(gathered.error) == str(error)


def test_a_piece_keeps_what_the_task_that_commits_needs_to_know_of_each_record():
    record = InputRecord("intake.a", 0, 7, 1, b"key", b"value", (("h", None),))
    result = ChunkResult()
    result.put(RecordResult(record, sent=["edge"], dead_letters=1, error=ModuleFailed("no"), is_given_up=True))

    found = ProcessedPiece.decode(ProcessedPiece(7, 8, result).encode())

    (again,) = found.result
    assert (again.record, again.sent, again.dead_letters, again.is_given_up) == (record, ["edge"], 1, True)
    assert found.result.last_error == "ModuleFailed: no"


def test_an_error_of_a_module_that_cannot_be_pickled_is_handed_over_by_its_message():
    class RateLimited(ModuleUnavailable):
        """Holds what it came from, as the error of a client library may."""

        def __init__(self):
            self.connection = threading.Lock()
            super().__init__("slow down")

    record = InputRecord("intake.a", 0, 7, 1, b"key", b"value")
    result = ChunkResult()
    result.put(RecordResult(record, dead_letters=1, error=RateLimited()))

    found = ProcessedPiece.decode(ProcessedPiece(7, 8, result, RateLimited()).encode())

    assert found.result.failed == 1
    assert found.result.last_error == "TransientError: RateLimited: slow down"
    assert (str(found.error), found.error.concerns) == ("RateLimited: slow down", ModuleUnavailable.concerns)


def test_pieces_are_in_order_of_their_sub_ranges_first():
    assert place_of(0, 99) < place_of(1, 0) < place_of(1, 1)

from __future__ import annotations

from contextlib import suppress

import pytest

from pipestream.drain.marks import ROOT, Mark, Marks, mark_key
from pipestream.errors import IdInvalid, ProducerFenced, StoreUnavailable
from pipestream.kafka.records import InputRecord
from pipestream_testing.made import make_task

HASH = "abc"


def record(offset, partition=0):
    return InputRecord("t", partition, offset, 0, b"key", b"value")


@pytest.fixture
def marks_of(store):
    """Make the marks of a try over some partitions."""

    def make(*partitions, lane="g", graph_hash=HASH, patiently=lambda work: work()):
        offsets = tuple((partition, 0, 1_000) for partition in partitions or (0,))
        task = make_task("t", "n", topic_id="to/pic+id", offsets=offsets, lane=lane)
        return Marks(store, task, graph_hash, patiently)

    return make


def found(marks, positions):
    marks.read(positions)
    return marks


def test_a_mark_gives_back_what_was_written():
    mark = Mark(5, HASH, 7, {6: 1, 7: 2})

    assert Mark.decode(mark.encode()) == mark


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b"null", b"{}", b'{"start": 1, "graph_hash": "", "at": null}']
)
def test_what_is_no_mark_is_told_from_one(data):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        Mark.decode(data)


def test_a_try_that_died_at_a_record_is_counted_by_the_next():
    assert Mark(5, HASH).taken_up(HASH) == Mark(5, HASH)
    assert Mark(5, HASH, 7).taken_up(HASH) == Mark(5, HASH, None, {7: 1})
    assert Mark(5, HASH, 7, {6: 2, 7: 1}).taken_up(HASH) == Mark(5, HASH, None, {6: 2, 7: 2})


def test_deaths_under_another_version_of_the_graph_are_forgotten_but_not_that_there_was_one():
    assert Mark(5, HASH, 7, {6: 2}).taken_up("other") == Mark(5, "other")


def test_the_key_of_a_mark_has_only_parts_that_may_be_in_one():
    assert mark_key("g@b", "DKFbbUMfSxSrAMIYv/WbvQ", 3) == f"{ROOT}/g@b/DKFbbUMfSxSrAMIYv_WbvQ/3.json"
    with pytest.raises(IdInvalid):
        mark_key("../g", "id", 0)


def test_a_chunk_is_suspect_only_to_a_try_that_starts_where_it_does(marks_of):
    marks_of().begin({0: 10})  # and then the process dies

    assert found(marks_of(), {0: 10}).are_suspect([0])
    assert not found(marks_of(), {0: 11}).are_suspect([0])
    assert not found(marks_of(lane="g@backfill"), {0: 10}).are_suspect([0])


def test_deaths_are_counted_at_the_record_that_was_named_last(marks_of):
    marks_of().begin({0: 10})
    for expected in (0, 1, 2):
        marks = found(marks_of(), {0: 10})
        assert marks.deaths(record(12)) == expected
        for offset in (10, 11, 12):
            marks.approach(record(offset), 10)

    marks = found(marks_of(), {0: 10})
    assert [marks.deaths(record(offset)) for offset in (10, 11, 12, 13)] == [0, 0, 3, 0]


def test_in_a_task_of_several_partitions_only_the_record_at_hand_is_blamed(marks_of):
    marks_of(0, 1).begin({0: 10, 1: 20})
    marks = found(marks_of(0, 1), {0: 10, 1: 20})
    for each, start in ((record(10), 10), (record(20, 1), 20), (record(11), 10)):
        marks.approach(each, start)

    after = found(marks_of(0, 1), {0: 10, 1: 20})
    assert after.deaths(record(11)) == 1
    assert after.deaths(record(10)) == 0
    assert after.deaths(record(20, 1)) == 0
    assert after.are_suspect([1])


def test_a_try_that_dies_behind_its_last_record_blames_none(marks_of):
    marks_of().begin({0: 10})
    marks = found(marks_of(), {0: 10})
    marks.approach(record(10), 10)
    marks.leave()

    after = found(marks_of(), {0: 10})
    assert after.are_suspect([0])
    assert after.deaths(record(10)) == 0


def test_a_committed_chunk_is_suspect_no_more(marks_of):
    marks_of(0, 1).begin({0: 10, 1: 20})
    marks = found(marks_of(0, 1), {0: 10, 1: 20})
    marks.passed([0])

    assert not marks.are_suspect([0])
    assert marks.are_suspect([1])


def test_a_try_that_ends_in_order_leaves_nothing(marks_of, store):
    with marks_of(0, 1) as marks:
        marks.read({0: 10, 1: 20})
        marks.begin({0: 10, 1: 20})

    assert list(store.list(ROOT)) == []


def test_a_try_that_fails_in_order_takes_back_its_own_mark_and_keeps_what_it_knows_of_deaths(marks_of):
    marks_of().begin({0: 10})
    found(marks_of(), {0: 10}).approach(record(12), 10)  # died here

    with suppress(StoreUnavailable), marks_of() as marks:
        marks.read({0: 10})
        marks.approach(record(11), 10)
        raise StoreUnavailable("the store went away while it was at another record")

    after = found(marks_of(), {0: 10})
    assert (after.deaths(record(11)), after.deaths(record(12))) == (0, 1)


def test_a_try_that_was_overtaken_leaves_the_marks_to_the_newer_run(marks_of):
    with suppress(ProducerFenced), marks_of() as marks:
        marks.begin({0: 10})
        raise ProducerFenced("t")

    assert found(marks_of(), {0: 10}).are_suspect([0])


def test_a_store_that_does_not_answer_stops_the_try_before_its_chunk(marks_of):
    def refuse(_work):
        raise StoreUnavailable("no answer")

    with pytest.raises(StoreUnavailable):
        marks_of(patiently=refuse).begin({0: 10})


def test_an_object_that_is_no_mark_is_passed_over_and_removed(marks_of, store, caplog):
    store.put(mark_key("g", "to/pic+id", 0), b"not a mark")

    with marks_of() as marks:
        marks.read({0: 10})
        assert not marks.are_suspect([0])

    assert "going on without it" in caplog.text
    assert list(store.list(ROOT)) == []

from __future__ import annotations

from contextlib import suppress

import pytest

from pipestream.drain.crash_markers import ROOT, CrashMarker, CrashMarkers, marker_key
from pipestream.errors import IdInvalid, ProducerFenced, StoreUnavailable
from pipestream.kafka.records import InputRecord
from pipestream_testing.made import make_task

HASH = "abc"


def record(offset, partition=0):
    return InputRecord("t", partition, offset, 0, b"key", b"value")


@pytest.fixture
def markers_of(store):
    """Make the markers of a try over some partitions."""

    def make(*partitions, lane="g", graph_hash=HASH, patiently=lambda work: work()):
        offsets = tuple((partition, 0, 1_000) for partition in partitions or (0,))
        task = make_task("t", "n", topic_id="to/pic+id", offsets=offsets, lane=lane)
        return CrashMarkers(store, task, graph_hash, patiently)

    return make


def found(markers, positions):
    markers.read(positions)
    return markers


def test_a_marker_gives_back_what_was_written():
    marker = CrashMarker(5, HASH, 7, {6: 1, 7: 2}, reach=9, alone=(6, 8))

    assert CrashMarker.decode(marker.encode()) == marker


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no json",
        b"[]",
        b"null",
        b"{}",
        b'{"start": 1, "graph_hash": "", "at": null}',
        b'{"start": 1, "graph_hash": "", "at": null, "deaths": {}, "alone": [1]}',
    ],
)
def test_bytes_that_are_not_a_marker_are_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong with it
        CrashMarker.decode(data)


def test_a_try_that_died_at_a_record_is_counted_by_the_next():
    assert CrashMarker(5, HASH).resumed(HASH) == CrashMarker(5, HASH)
    assert CrashMarker(5, HASH, 7).resumed(HASH) == CrashMarker(5, HASH, None, {7: 1})
    assert CrashMarker(5, HASH, 7, {6: 2, 7: 1}).resumed(HASH) == CrashMarker(5, HASH, None, {6: 2, 7: 2})


def test_deaths_under_another_version_of_the_graph_are_forgotten_but_not_that_there_was_one():
    assert CrashMarker(5, HASH, 7, {6: 2}).resumed("other") == CrashMarker(5, "other")


def test_the_key_of_a_marker_has_only_parts_that_may_be_in_one():
    assert marker_key("g@b", "DKFbbUMfSxSrAMIYv/WbvQ", 3) == f"{ROOT}/g@b/DKFbbUMfSxSrAMIYv_WbvQ/3.json"
    with pytest.raises(IdInvalid):
        marker_key("../g", "id", 0)


def test_a_chunk_is_suspect_only_to_a_try_that_starts_in_what_was_in_progress(markers_of):
    markers_of().begin({0: 10}, {0: 20})  # and then the process dies

    assert found(markers_of(), {0: 10}).has_suspects
    assert found(markers_of(), {0: 19}).has_suspects, "a chunk before it may have been committed meanwhile"
    assert not found(markers_of(), {0: 20}).has_suspects
    assert not found(markers_of(), {0: 9}).has_suspects
    assert not found(markers_of(lane="g@backfill"), {0: 10}).has_suspects


def test_what_a_try_died_in_among_other_chunks_is_not_suspect_record_by_record(markers_of):
    markers_of().begin({0: 10}, {0: 20})

    markers = found(markers_of(), {0: 10})

    assert markers.has_suspects
    assert not markers.are_suspect([record(10)])
    assert markers.are_suspect([record(10)], after_one_death=True)


def test_a_chunk_that_a_try_died_in_alone_is_suspect_record_by_record_and_no_other_is(markers_of):
    markers_of().begin({0: 10}, {0: 40})
    markers = found(markers_of(), {0: 10})
    markers.enter([record(10), record(19)], {0: 10})
    markers.passed({0: 20})
    markers.enter([record(20), record(29)], {0: 20})  # and here it dies

    markers = found(markers_of(), {0: 20})
    assert [markers.are_suspect([record(offset)]) for offset in (19, 20, 29, 30)] == [False, True, True, False]
    assert markers.deaths(record(20)) == 0, "which of them is to blame is not known"


def test_a_try_of_a_sub_range_that_starts_over_suspects_only_the_chunk_that_it_died_in(markers_of):
    markers_of().begin({0: 10}, {0: 40})
    markers = found(markers_of(), {0: 10})
    markers.enter([record(20), record(29)], {0: 10})  # and here it dies; nothing before it is committed

    markers = found(markers_of(), {0: 10})
    assert [markers.are_suspect([record(offset)]) for offset in (10, 19, 20, 29, 30)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_chunk_that_takes_from_two_partitions_marks_its_part_of_each(markers_of):
    markers_of(0, 1).begin({0: 10}, {0: 20})
    markers = found(markers_of(0, 1), {0: 10, 1: 5})
    markers.enter([record(10), record(5, 1), record(11), record(6, 1)], {0: 10, 1: 5})

    markers = found(markers_of(0, 1), {0: 10, 1: 5})
    assert [markers.are_suspect([record(offset)]) for offset in (10, 11, 12)] == [True, True, False]
    assert [markers.are_suspect([record(offset, 1)]) for offset in (5, 6, 7)] == [True, True, False]


def test_a_record_that_a_try_died_at_stays_suspect_when_a_later_try_dies_elsewhere(markers_of):
    markers_of().begin({0: 10}, {0: 40})
    found(markers_of(), {0: 10}).approach(record(12), 10)
    found(markers_of(), {0: 10}).enter([record(30), record(39)], {0: 10})

    markers = found(markers_of(), {0: 10})
    assert markers.deaths(record(12)) == 1
    assert [markers.are_suspect([record(offset)]) for offset in (11, 12, 13, 30)] == [False, True, False, True]


def test_deaths_are_counted_at_the_record_that_was_named_last(markers_of):
    markers_of().begin({0: 10}, {0: 20})
    for expected in (0, 1, 2):
        markers = found(markers_of(), {0: 10})
        assert markers.deaths(record(12)) == expected
        for offset in (10, 11, 12):
            markers.approach(record(offset), 10)

    markers = found(markers_of(), {0: 10})
    assert [markers.deaths(record(offset)) for offset in (10, 11, 12, 13)] == [0, 0, 3, 0]


def test_in_a_task_of_several_partitions_only_the_record_at_hand_is_blamed(markers_of):
    markers_of(0, 1).begin({0: 10, 1: 20}, {0: 20, 1: 30})
    markers = found(markers_of(0, 1), {0: 10, 1: 20})
    for each, start in ((record(10), 10), (record(20, 1), 20), (record(11), 10)):
        markers.approach(each, start)

    after = found(markers_of(0, 1), {0: 10, 1: 20})
    assert after.deaths(record(11)) == 1
    assert after.deaths(record(10)) == 0
    assert after.deaths(record(20, 1)) == 0
    assert after.are_suspect([record(20, 1)], after_one_death=True)


def test_a_try_that_dies_behind_its_last_record_blames_none(markers_of):
    markers_of().begin({0: 10}, {0: 20})
    markers = found(markers_of(), {0: 10})
    markers.approach(record(10), 10)
    markers.leave()

    after = found(markers_of(), {0: 10})
    assert after.has_suspects
    assert after.deaths(record(10)) == 0


def test_a_committed_chunk_is_suspect_no_more(markers_of):
    markers_of(0, 1).begin({0: 10, 1: 20}, {0: 20, 1: 30})
    markers = found(markers_of(0, 1), {0: 10, 1: 20})
    markers.passed({0: 15})
    assert markers.are_suspect([record(15)], after_one_death=True), "what was in progress reaches further"
    markers.passed({0: 20})

    assert not markers.are_suspect([record(20)], after_one_death=True)
    assert markers.are_suspect([record(20, 1)], after_one_death=True)


def test_a_try_that_ends_in_order_leaves_nothing(markers_of, store):
    with markers_of(0, 1) as markers:
        markers.read({0: 10, 1: 20})
        markers.begin({0: 10, 1: 20}, {0: 20, 1: 30})

    assert list(store.list(ROOT)) == []


def test_a_try_that_fails_in_order_takes_back_its_own_marker_and_keeps_what_it_knows_of_deaths(markers_of):
    markers_of().begin({0: 10}, {0: 20})
    found(markers_of(), {0: 10}).approach(record(12), 10)  # died here

    with suppress(StoreUnavailable), markers_of() as markers:
        markers.read({0: 10})
        markers.approach(record(11), 10)
        raise StoreUnavailable("the store went away while it was at another record")

    after = found(markers_of(), {0: 10})
    assert (after.deaths(record(11)), after.deaths(record(12))) == (0, 1)


def test_a_try_that_was_overtaken_leaves_the_markers_to_the_newer_run(markers_of):
    with suppress(ProducerFenced), markers_of() as markers:
        markers.begin({0: 10}, {0: 20})
        raise ProducerFenced("t")

    assert found(markers_of(), {0: 10}).has_suspects


def test_a_store_that_does_not_answer_stops_the_try_before_its_chunk(markers_of):
    def refuse(_work):
        raise StoreUnavailable("no answer")

    with pytest.raises(StoreUnavailable):
        markers_of(patiently=refuse).begin({0: 10}, {0: 20})


def test_an_object_that_is_not_a_marker_is_passed_over_and_removed(markers_of, store, caplog):
    store.put(marker_key("g", "to/pic+id", 0), b"not a marker")

    with markers_of() as markers:
        markers.read({0: 10})
        assert not markers.has_suspects

    assert "continuing without it" in caplog.text
    assert list(store.list(ROOT)) == []


def test_the_deaths_in_a_sub_range_stay_known_until_its_results_are_committed(store):
    task = make_task("t", "n", offsets=((0, 10, 20),))
    markers = [CrashMarkers(store, task, HASH, lambda work: work(), sub_range=3) for _ in range(3)]
    found(markers[0], {0: 10}).approach(record(14), 10)  # and there it died

    with found(markers[1], {0: 10}) as second:
        assert second.deaths(record(14)) == 1
        second.passed({0: 20})
        assert not second.has_suspects

    (key,) = second.kept_keys
    assert key == marker_key("g", "id-1", 0, 3) == "drains/g/id-1/0.3.json"
    assert found(markers[2], {0: 10}).deaths(record(14)) == 1

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipestream.dead_letters.action import ActionRequest, decide, replay_record
from pipestream.dead_letters.decisions import (
    Act,
    ActionPlan,
    Batch,
    PlannedRange,
    add_up,
    to_runs,
)
from pipestream.dead_letters.letter import Decision, LetterId, State, read_letter
from pipestream.dead_letters.selection import Selection
from pipestream.errors import IdInvalid, RecordInvalid
from pipestream.kafka.records import InputRecord

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOPIC = "dlq.main.parse"


def letter(offset=17, *, state=State.OPEN, replays=0, error="ModuleFailed", key=b"d1"):
    headers = (
        ("trace", b"t1"),
        ("__connect.errors.exception.class.name", error.encode()),
        ("__connect.errors.topic", b"pipestream.main.parse"),
        ("pipestream.dead.replays", str(replays).encode()),
        ("pipestream.dead.first-failed-at", b"2026-01-01T00:00:00.000+00:00"),
    )
    decision = None if state is State.OPEN else Decision(state, "earlier", NOW)
    record = InputRecord(TOPIC, 0, offset, int(NOW.timestamp() * 1000), key, b"\xffbytes", headers)
    return read_letter(record, decision)


def plan(act=Act.REPLAY, **changes):
    made = ActionRequest(act, "a1", (TOPIC,)).plan([PlannedRange(TOPIC, "id-1", 0, 0, 100)])
    return replace(made, **changes)


def batch(offsets, *, state=State.REPLAYED, end=100, action_id="a1", topic_id="id-1", partition=0):
    return Batch(action_id, TOPIC, topic_id, partition, end, {state: tuple(offsets)}, NOW)


def written(*entries: ActionPlan | Batch) -> list[InputRecord]:
    return [InputRecord("dlq-decisions", 0, n, 0, b"", entry.encode()) for n, entry in enumerate(entries)]


@pytest.mark.parametrize("wanted", ["CatalogueUnavailable", "DatabaseUnavailable", "Database*"])
def test_a_letter_of_an_error_that_was_renamed_is_found_under_its_old_and_its_new_name(wanted):
    selection = Selection(errors=(wanted,))

    assert selection.matches(letter(error="CatalogueUnavailable"))
    assert not selection.matches(letter(error="ModuleFailed"))


@pytest.mark.parametrize(
    ("selection", "is_meant"),
    [
        pytest.param(Selection(), True, id="no filter"),
        pytest.param(Selection(nodes=("parse",)), True, id="its node"),
        pytest.param(Selection(nodes=("p*",)), True, id="a pattern of its node"),
        pytest.param(Selection(nodes=("chunk", "embed")), False, id="other nodes"),
        pytest.param(Selection(errors=("Document*", "Module*")), True, id="one of two patterns"),
        pytest.param(Selection(errors=("module*",)), False, id="a pattern in the wrong case"),
        pytest.param(Selection(doc_ids=("d1",)), True, id="its document"),
        pytest.param(Selection(doc_ids=("d*",)), False, id="documents are no patterns"),
        pytest.param(Selection(since=NOW), True, id="since is included"),
        pytest.param(Selection(until=NOW), False, id="until is not"),
        pytest.param(Selection(since=NOW - timedelta(days=1), until=NOW + timedelta(days=1)), True, id="in between"),
        pytest.param(Selection(letters=(LetterId(TOPIC, 0, 17),)), True, id="by name"),
        pytest.param(Selection(letters=(LetterId(TOPIC, 1, 17),)), False, id="another's name"),
        pytest.param(Selection(graphs=("sample",)), True, id="a graph that it does not name"),
        pytest.param(Selection(nodes=("parse",), errors=("Other",)), False, id="all filters must hold"),
    ],
)
def test_a_selection_means_letters_for_which_all_filters_hold(selection, is_meant):
    assert selection.matches(letter()) is is_meant
    assert Selection.from_values(selection.to_values()) == selection


def test_a_letter_of_another_graph_on_the_same_datasource_can_be_left_out():
    of_unknown = letter()
    of_sample = replace(of_unknown, graph_id="sample")

    assert Selection(graphs=("sample",)).matches(of_sample)
    assert Selection(graphs=("sample",)).matches(of_unknown)
    assert not Selection(graphs=("other",)).matches(of_sample)


def test_a_selection_that_was_written_before_there_was_a_filter_by_graph_is_read():
    values = Selection(graphs=("sample",)).to_values()
    del values["graphs"]

    assert Selection.from_values(values) == Selection()


def test_a_time_without_its_zone_is_refused():
    with pytest.raises(ValueError, match="need a time zone"):
        Selection(since=datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("act", "state", "decided"),
    [
        (Act.REPLAY, State.OPEN, State.REPLAYED),
        (Act.REPLAY, State.RELEASED, State.REPLAYED),
        (Act.REPLAY, State.REPLAYED, None),
        (Act.REPLAY, State.QUARANTINED, None),
        (Act.REPLAY, State.PURGED, None),
        (Act.QUARANTINE, State.OPEN, State.QUARANTINED),
        (Act.QUARANTINE, State.REPLAYED, None),
        (Act.RELEASE, State.QUARANTINED, State.RELEASED),
        (Act.RELEASE, State.PURGED, State.RELEASED),
        (Act.RELEASE, State.REPLAYED, None),
        (Act.RELEASE, State.OPEN, None),
        (Act.PURGE, State.OPEN, State.PURGED),
        (Act.PURGE, State.QUARANTINED, State.PURGED),
        (Act.PURGE, State.REPLAYED, None),
    ],
)
def test_an_act_is_for_letters_of_certain_states_only(act, state, decided):
    assert decide(letter(state=state), plan(act)) is decided


@pytest.mark.parametrize(
    ("replays", "state", "decided"),
    [
        pytest.param(2, State.OPEN, State.REPLAYED, id="below the cap"),
        pytest.param(3, State.OPEN, State.QUARANTINED, id="at the cap"),
        pytest.param(7, State.OPEN, State.QUARANTINED, id="above it"),
        pytest.param(7, State.RELEASED, State.REPLAYED, id="released by a person"),
    ],
)
def test_a_letter_that_was_replayed_too_often_is_quarantined_unless_a_person_released_it(replays, state, decided):
    assert decide(letter(replays=replays, state=state), plan(max_replays=3)) is decided


def test_the_cap_holds_for_replays_only():
    assert decide(letter(replays=9), plan(Act.PURGE)) is State.PURGED


def test_a_replayed_record_has_its_own_bytes_and_headers_and_counts_its_replays():
    sent = replay_record(letter(replays=1), "pipestream.main.parse", "a1")

    assert (sent.topic, sent.key, sent.value) == ("pipestream.main.parse", b"d1", b"\xffbytes")
    assert sent.headers == (
        ("trace", b"t1"),
        ("pipestream.dead.replays", b"2"),
        ("pipestream.dead.first-failed-at", b"2026-01-01T00:00:00.000+00:00"),
        ("pipestream.dead.letter", b"dlq.main.parse/0/17"),
        ("pipestream.dead.replay", b"a1"),
    )


def test_plans_and_batches_read_back_as_they_were_written():
    planned = plan(selection=Selection(errors=("M*",), since=NOW, letters=(LetterId(TOPIC, 0, 1),)), limit=5, by="me")

    decisions = add_up(written(planned, batch([3, 4, 9])))

    assert decisions.plans == {"a1": planned}
    assert decisions.of_partition("id-1", 0) == dict.fromkeys([3, 4, 9], Decision(State.REPLAYED, "a1", NOW))


def test_the_last_decision_about_a_letter_holds():
    decisions = add_up(
        written(
            batch([1, 2], state=State.QUARANTINED),
            batch([2], state=State.RELEASED, action_id="a2"),
            batch([2], state=State.REPLAYED, action_id="a3"),
        )
    )

    found = decisions.of_partition("id-1", 0)
    assert (found[1].state, found[2].state) == (State.QUARANTINED, State.REPLAYED)


def test_decisions_about_a_topic_do_not_hold_for_one_made_again_under_its_name_nor_for_another_partition():
    decisions = add_up(written(batch([1])))

    assert decisions.of_partition("id-2", 0) == {}
    assert decisions.of_partition("id-1", 1) == {}


def test_the_first_plan_under_an_id_counts():
    first, second = plan(by="first"), plan(by="second")

    assert add_up(written(first, second)).plans["a1"].by == "first"


def test_an_action_has_work_left_until_its_batches_reach_the_end_of_every_range():
    ranges = (PlannedRange(TOPIC, "id-1", 0, 0, 10), PlannedRange(TOPIC, "id-1", 1, 5, 9))
    planned = plan(ranges=ranges)

    assert add_up(written(planned)).remaining(planned) == list(ranges)
    assert add_up(written(planned, batch([1], end=10))).remaining(planned) == [ranges[1]]
    assert add_up(written(planned, batch([1], end=9), batch([], end=9, partition=1))).remaining(planned) == [ranges[0]]
    assert add_up(written(planned, batch([1], end=10), batch([], end=9, partition=1))).remaining(planned) == []


def test_letters_are_counted_per_action():
    decisions = add_up(written(batch([1, 2]), batch([3], state=State.QUARANTINED), batch([4], action_id="a2")))

    assert decisions.decided_by("a1") == {State.REPLAYED: 2, State.QUARANTINED: 1}
    assert decisions.decided_by("unknown").total() == 0


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[]", b'{"version":2,"kind":"plan"}', b"\xff"])
def test_a_foreign_record_among_the_decisions_stops_everything_and_is_named(value):
    with pytest.raises(RecordInvalid, match="dlq-decisions offset 7 is not a decision"):
        add_up([InputRecord("dlq-decisions", 0, 7, 0, None, value)])


def test_offsets_are_kept_as_runs():
    assert to_runs([]) == []
    assert to_runs([4, 5, 6, 9, 11, 12]) == [(4, 7), (9, 10), (11, 13)]


def test_a_batch_of_scattered_letters_fits_a_record_of_the_default_size():
    scattered = batch(range(2**40, 2**40 + 20_000, 2))

    assert len(scattered.encode()) < 900_000


@pytest.mark.parametrize("changes", [{"limit": 0}, {"max_replays": -1}])
def test_a_request_that_makes_no_sense_is_refused(changes):
    with pytest.raises(ValueError, match="must"):
        ActionRequest(Act.REPLAY, "a1", (TOPIC,), **changes)


def test_an_actions_id_must_be_fit_for_a_groups_name():
    with pytest.raises(IdInvalid, match="action id"):
        ActionRequest(Act.REPLAY, "a b/c", (TOPIC,))

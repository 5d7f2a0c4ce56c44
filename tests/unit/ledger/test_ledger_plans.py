from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake.exceptions import CommitFailedError

from pipestream.errors import LedgerBusy, OtherVersion, StoreUnavailable
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger, plan_store
from pipestream.ledger.delta import append
from pipestream.objects.store import ObjectStore
from pipestream.settings import Settings
from pipestream.version import VERSION
from pipestream_testing.made import MADE_AT, make_plan
from pipestream_testing.together import together


def plan(run_id, topic="intake.a", minute=0):
    ranges = (OffsetRange(topic, 0, 5, 9), OffsetRange(topic, 1, 0, 3))
    return make_plan(*ranges, run_id=run_id, planned_at=MADE_AT + timedelta(minutes=minute))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(Settings(ledger_uri=tmp_path.as_uri()))


def test_a_plan_comes_back_as_it_was_written(ledger):
    ledger.write_plan(plan("one"))

    assert ledger.find_plan("one|intake.a|0", "g") == plan("one")
    assert ledger.find_plan("another", "g") is None


def test_a_plan_comes_back_whatever_its_id_looks_like(ledger):
    strange = replace(plan("one"), plan_id="it's' OR 1=1 --/../ä")
    ledger.write_plan(strange)

    assert ledger.find_plan(strange.plan_id, "g") == strange
    assert ledger.plans() == [strange]


def test_plans_are_listed_with_how_their_work_is_cut_and_why(ledger):
    cut = replace(plan("one"), sub_range_offsets=5, wave_offsets=20, tasks_reason="sub-ranges of 5 offsets")
    same_id = replace(plan("one", minute=1), lane="other", tasks_reason="one task per partition")
    for each in (cut, same_id, plan("two", minute=2)):
        ledger.write_plan(each)

    assert ledger.with_tasks(ledger.plans()) == [cut, same_id, plan("two", minute=2)]


def test_a_plan_of_a_newer_version_is_refused_with_what_to_do(ledger, tmp_path):
    ledger.write_plan(plan("one"))
    [file] = (tmp_path / "plan_ids").rglob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "colour": "red"}))

    with pytest.raises(OtherVersion) as caught:
        ledger.find_plan("one|intake.a|0", "g")

    assert str(caught.value) == (
        f"plan one|intake.a|0 was written by another version of Pipestream, and this is {VERSION}, which knows no "
        f"colour; run it with the version that made the plan, or under another id, which plans anew"
    )
    [listed] = ledger.with_tasks(ledger.plans())
    assert (listed.ranges, listed.tasks_reason) == (plan("one").ranges, str(caught.value))


def test_a_plan_is_never_replaced(ledger):
    ledger.write_plan(plan("one"))

    with pytest.raises(LedgerBusy, match=r"another process made plan .* first"):
        ledger.write_plan(plan("one", minute=1))

    assert ledger.find_plan("one|intake.a|0", "g") == plan("one")
    assert ledger.plans() == [plan("one")]


def test_two_graphs_that_drain_a_topic_under_the_same_run_id_have_a_plan_each(ledger):
    plans = [replace(plan("one", minute=minute), lane=lane) for minute, lane in enumerate(["g", "other", "third"])]
    for each in plans:
        ledger.write_plan(each)

    assert [ledger.find_plan(each.plan_id, each.lane) for each in plans] == plans
    assert ledger.plans() == plans
    for each in plans:
        with pytest.raises(LedgerBusy):
            ledger.write_plan(replace(each, token=2))


def test_of_several_plans_under_one_id_exactly_one_holds(ledger):
    def write(minute):
        try:
            ledger.write_plan(plan("one", minute=minute))
        except LedgerBusy:
            return None
        return minute

    (won,) = [minute for minute in together(8, write) if minute is not None]

    assert ledger.find_plan("one|intake.a|0", "g") == plan("one", minute=won)
    assert ledger.plans() == [plan("one", minute=won)]


def test_runs_that_plan_at_once_are_all_listed(ledger):
    together(12, lambda number: ledger.write_plan(plan(f"run-{number:02}")))

    assert [found.run_id for found in ledger.plans()] == [f"run-{number:02}" for number in range(12)]


def test_a_plan_whose_answer_was_lost_is_known_again(ledger, monkeypatch):
    put_new = ObjectStore.put_new

    def put_and_lose(store, key, data):
        put_new(store, key, data)
        return False  # what S3's "there is one already" to the client's second try becomes

    monkeypatch.setattr(ObjectStore, "put_new", put_and_lose)
    ledger.write_plan(plan("one"))

    assert ledger.find_plan("one|intake.a|0", "g") == plan("one")
    assert ledger.plans() == [plan("one")]


def fail(*_):
    raise StoreUnavailable("the process dies here")


@pytest.mark.parametrize("point", ["before the plan is listed", "after the plan is listed"])
def test_a_plan_whose_writer_died_is_found_and_listed_once(ledger, monkeypatch, point):
    with monkeypatch.context() as broken:
        if point.startswith("before"):
            broken.setattr(plan_store, "append", fail)
        else:
            broken.setattr(ObjectStore, "put", fail)
        with pytest.raises(StoreUnavailable):
            ledger.write_plan(plan("one"))

    assert ledger.find_plan("one|intake.a|0", "g") == plan("one")
    assert ledger.find_plan("one|intake.a|0", "g") == plan("one")
    (table,) = ledger.delta_tables().values()
    assert table.count() == len(plan("one").ranges)


def test_a_listing_whose_answer_was_lost_is_made_once(ledger, monkeypatch):
    def append_and_lose(table, rows, versions):
        append(table, rows, versions)
        raise CommitFailedError("the version exists already")  # said to the client's second try

    monkeypatch.setattr(plan_store, "append", append_and_lose)
    ledger.write_plan(plan("one"))

    (table,) = ledger.delta_tables().values()
    assert table.count() == len(plan("one").ranges)


def test_plans_are_listed_oldest_first_with_all_their_ranges(ledger):
    for each in (plan("late", minute=2), plan("early", minute=1)):
        ledger.write_plan(each)

    assert ledger.plans() == [plan("early", minute=1), plan("late", minute=2)]


def test_plans_are_found_by_run_and_topic(ledger):
    for each in (plan("one"), plan("one", topic="intake.b"), plan("it's two")):
        ledger.write_plan(each)

    assert ledger.plans(run_id="it's two") == [plan("it's two")]
    assert ledger.plans(run_id="one", topic="intake.b") == [plan("one", topic="intake.b")]
    assert ledger.plans(lane="other") == []

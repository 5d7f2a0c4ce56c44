"""The ledger in a bucket: the same promises as on disk, held by conditional puts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.errors import LedgerBusy
from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Ledger
from pipestream.ledger.upkeep import tidy
from pipestream.objects.store import open_store
from pipestream_testing.made import make_entry, make_plan
from pipestream_testing.together import together

pytestmark = pytest.mark.stack

PLAN = make_plan(OffsetRange("intake.a", 0, 0, 9))


@pytest.fixture
def on_s3(settings, unique):
    return settings.model_copy(update={"ledger_uri": f"s3://pipestream/{unique}/ledger"})


@pytest.fixture
def ledger(on_s3):
    return Ledger(on_s3)


def test_reading_a_ledger_that_is_not_there_finds_nothing_and_makes_nothing(ledger, on_s3):
    assert ledger.heads("g", "intake.a", [0]) == {}
    assert ledger.is_same_topic("g", "intake.a", "id-1")
    assert ledger.find_plan("plan", "g") is None
    assert (ledger.entries(), ledger.plans(), ledger.delta_tables()) == ([], [], {})
    with open_store(on_s3.ledger_uri, on_s3) as store:
        assert list(store.list()) == []


def test_many_first_users_at_once_make_one_ledger(on_s3):
    together(6, lambda number: Ledger(on_s3).enter([make_entry(0, 3, partition=number)]))

    assert Ledger(on_s3).heads("g", "intake.a", range(6)) == dict.fromkeys(range(6), 3)


def test_slots_that_begin_a_topic_at_once_all_begin_it(ledger):
    together(4, lambda slot: ledger.begin("g", "intake.a", "id-1", {slot: 5}, [make_entry(0, 5, partition=slot)]))

    assert ledger.heads("g", "intake.a", range(4)) == dict.fromkeys(range(4), 5)
    assert len(ledger.entries()) == 4


def test_of_several_plans_under_one_id_exactly_one_holds(ledger):
    def write(token):
        try:
            ledger.write_plan(replace(PLAN, token=token))
        except LedgerBusy:
            return None
        return token

    (won,) = [token for token in together(4, write) if token is not None]

    assert ledger.find_plan(PLAN.plan_id, PLAN.lane) == replace(PLAN, token=won)
    assert ledger.plans() == [replace(PLAN, token=won)]


def test_upkeep_runs_next_to_runs_that_write(ledger):
    for number in range(4):
        ledger.enter([make_entry(number, number + 1)])

    def work(number):
        if number == 0:
            return tidy("entries", ledger.delta_tables()["entries"]).files_made
        for start in range(5):
            ledger.enter([make_entry(start, start + 1, partition=number)])
        return None

    made, *_ = together(3, work)

    assert made == 1
    assert ledger.heads("g", "intake.a", [0, 1, 2]) == {0: 4, 1: 5, 2: 5}
    assert len(ledger.entries()) == 14

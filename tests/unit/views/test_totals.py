from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from pipestream.arrow import PART_ROWS
from pipestream.graph.load import check_graph_text
from pipestream.ledger import EntryKind, Ledger, Tally
from pipestream.ledger.tables import entry_rows
from pipestream.ledger.upkeep import tidy
from pipestream.settings import Settings
from pipestream.views.exporter import DrainedCollector
from pipestream.views.totals import DrainTotals, count, to_totals
from pipestream_testing.made import MADE_AT, make_entry

TEXT = """
graph: g
cluster: main
datasources: [{id: a, account: acme, entry: first}]
nodes: [{id: first, type: connector}, {id: second, type: connector}]
edges: [{id: e1, from: first, to: second}]
"""
GRAPH = check_graph_text(TEXT.encode(), "g").require()
INTAKE = ("g", "intake.a", "live")


class Clock:
    def __init__(self):
        self.now = MADE_AT + timedelta(minutes=1)

    def __call__(self):
        return self.now


@pytest.fixture
def ledger(tmp_path):
    return Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))


def enter(ledger, start, end, *, at=MADE_AT, lane="g", tally=None, kind=EntryKind.DRAINED):
    ledger.enter([make_entry(start, end, lane=lane, entered_at=at, tally=tally, kind=kind)])


def test_what_runs_did_adds_up_by_topic_and_by_way(ledger):
    enter(ledger, 0, 10, tally=Tally(9, {"e1": 7, "happy-end": 1}, 1, {"e1 true": 7}))
    enter(ledger, 10, 12, tally=Tally(2, {"e1": 2}))
    enter(ledger, 12, 13, kind=EntryKind.RECOVERED)
    enter(ledger, 0, 5, lane="g@again", tally=Tally(5, {"e1": 5}))

    found = DrainTotals(ledger, Clock()).find()

    again = ("g", "intake.a", "backfill")
    assert found["drained_ranges"] == {(*INTAKE, "drained"): 2, (*INTAKE, "recovered"): 1, (*again, "drained"): 1}
    assert found["drained_records"] == {INTAKE: 11, again: 5}
    assert found["drained_dead_letters"] == {INTAKE: 1, again: 0}
    assert found["drained_seconds"] == {INTAKE: 0.75, again: 0.25}
    assert found["drained_documents_out"] == {
        ("g", "live", "e1"): 9,
        ("g", "live", "happy-end"): 1,
        ("g", "backfill", "e1"): 5,
    }


def test_entries_count_once_however_often_they_are_asked_for_and_however_old_they_get(ledger):
    clock = Clock()
    totals = DrainTotals(ledger, clock)
    told = []
    at = 0
    for _ in range(40):
        clock.now += timedelta(minutes=17)
        # The clock of whoever entered it is behind by most of what is allowed.
        enter(ledger, at, at + 3, at=clock.now - timedelta(minutes=55), tally=Tally(3))
        at += 3
        told.append(totals.find()["drained_records"][INTAKE])

    assert told == [3 * number for number in range(1, 41)]
    assert DrainTotals(ledger, clock).find() == totals.find()


def test_a_history_is_added_up_without_ever_having_more_than_a_part_of_it_in_memory(tmp_path):
    class WatchedLedger(Ledger):
        def entries_table(self, *_columns, **_wanted):
            raise AssertionError("all of the history was read at once")

        def entries_in_parts(self, *columns, **wanted):
            for part in super().entries_in_parts(*columns, **wanted):
                read.append(part.num_rows)
                yield part

    read = []
    ledger = WatchedLedger(Settings(ledger_uri=tmp_path.as_uri()))
    many = 3 * PART_ROWS
    ledger.enter([make_entry(at, at + 1, tally=Tally(1)) for at in range(many)])
    for at in range(many, many + 5):
        enter(ledger, at, at + 1, tally=Tally(1))
    clock = Clock()
    clock.now += timedelta(hours=2)

    assert DrainTotals(ledger, clock).find()["drained_records"] == {INTAKE: many + 5}
    assert sum(read) == many + 5
    assert max(read) < 2 * PART_ROWS
    assert len(read) <= 4


@given(st.lists(st.floats(0, 100_000), min_size=1, max_size=40), st.randoms(use_true_random=False), st.integers(1, 9))
def test_seconds_never_go_back_however_entries_are_ordered_and_split(seconds, chance, size):
    entries = [make_entry(at, at + 1, seconds=each) for at, each in enumerate(seconds)]
    (in_order,) = add_seconds([entries])
    chance.shuffle(entries)
    told = add_seconds([entries[at : at + size] for at in range(0, len(entries), size)])

    assert told == sorted(told)
    assert told[-1] == in_order == pytest.approx(sum(seconds), abs=1e-4)


def add_seconds(parts):
    """Return the seconds in total after each part."""
    counts, told = Counter(), []
    for part in parts:
        counts.update(count(entry_rows(part)))
        told.append(to_totals(counts)["drained_seconds"][INTAKE])
    return told


def test_seconds_stay_the_same_while_entries_grow_old_and_files_are_joined(ledger):
    clock = Clock()
    totals = DrainTotals(ledger, clock)
    chance = Random(7)
    for number in range(30):
        at = MADE_AT + timedelta(minutes=10 * number)
        ledger.enter([make_entry(number, number + 1, entered_at=at, seconds=chance.uniform(0, 300))])
    told = []
    for _ in range(10):
        clock.now += timedelta(minutes=70)
        told.append(totals.find()["drained_seconds"])
    tidy("entries", ledger.delta_tables()["entries"])

    assert told == [told[0]] * 10
    assert DrainTotals(ledger, clock).find()["drained_seconds"] == told[0]


@pytest.mark.parametrize(("ledger_lane", "lane"), [("g", "live"), ("g@again", "backfill")])
def test_the_exporter_counts_from_zero_and_only_what_belongs_to_graphs_that_are_applied(ledger, ledger_lane, lane):
    graphs = [GRAPH]
    registry = CollectorRegistry()
    registry.register(DrainedCollector(DrainTotals(ledger, Clock()), lambda: graphs))

    before = generate_latest(registry).decode()
    enter(ledger, 0, 10, lane=ledger_lane, tally=Tally(10, {"e1": 8, "error-end": 1}, 1))
    after = generate_latest(registry).decode()
    graphs.clear()
    without = generate_latest(registry).decode()

    topic = f'graph="g",lane="{lane}",topic="intake.a"'
    for name, labels, value in (
        ("ranges", f'graph="g",kind="drained",lane="{lane}",topic="intake.a"', 1),
        ("records", topic, 10),
        ("dead_letters", topic, 1),
        ("seconds", topic, 0.25),
        ("documents_out", f'graph="g",lane="{lane}",way="e1"', 8),
        ("documents_out", f'graph="g",lane="{lane}",way="error-end"', 1),
        ("documents_out", f'graph="g",lane="{lane}",way="happy-end"', 0),
    ):
        assert f"pipestream_drained_{name}_total{{{labels}}} 0.0" in before
        assert f"pipestream_drained_{name}_total{{{labels}}} {float(value)}" in after
    assert 'graph="g"' not in without


def test_a_ledger_that_does_not_answer_hides_its_counters_and_nothing_else(tmp_path):
    (tmp_path / "ledger" / "entries" / "_delta_log").mkdir(parents=True)
    (tmp_path / "ledger" / "entries" / "_delta_log" / f"{0:020}.json").write_text("no commit")
    registry = CollectorRegistry()
    ledger = Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))
    registry.register(DrainedCollector(DrainTotals(ledger, Clock()), lambda: [GRAPH]))

    assert generate_latest(registry).decode() == ""

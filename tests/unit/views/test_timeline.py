from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from deltalake import write_deltalake

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry, EntryKind, Ledger, Tally
from pipestream.ledger.tables import entry_rows
from pipestream.settings import Settings
from pipestream.views.gaps import ledger_faults
from pipestream.views.numbers import read_drained
from pipestream.views.timeline import (
    Series,
    TopicSeries,
    Window,
    entry_page,
    heads_over_time,
    keep_busiest,
    read_drained_over_time,
    run_page,
    topic_series,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window("g", START, START + timedelta(minutes=4))


def entry(start: int, end: int, minute: float, **changes: object) -> Entry:
    values = {
        "lane": "g",
        "range": OffsetRange("intake.a", 0, start, end),
        "topic_id": "id",
        "kind": EntryKind.DRAINED,
        "run_id": f"run-{start}",
        "plan_id": f"plan-{start}",
        "graph_id": "g",
        "graph_hash": "h",
        "holder": "me",
        "token": 1,
        "tally": Tally(end - start, {"edge": end - start}, 1),
        "seconds": 2.0,
        "entered_at": START + timedelta(minutes=minute),
    }
    return Entry(**{**values, **changes})


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(Settings(ledger_uri=(tmp_path / "ledger").as_uri()))
    made.enter([entry(0, 10, 0.5)])
    made.enter([entry(10, 30, 2.5, kind=EntryKind.RECOVERED, tally=None)])
    made.enter([entry(30, 35, 2.7)])
    made.enter([entry(0, 5, 1, lane="g@back", run_id="back")])
    made.enter([entry(0, 7, 1, lane="other", graph_id="other", range=OffsetRange("intake.b", 0, 0, 7))])
    return made


def test_a_page_has_the_newest_entries_of_the_graph_and_its_backfills(ledger):
    page = entry_page(ledger, WINDOW, limit=2, offset=1)

    assert page.total == 4
    assert [(each["lane"], each["start"]) for each in page.entries] == [("g", 10), ("g@back", 0)]


def test_entries_are_found_by_the_offsets_in_them(ledger):
    found = ledger.entries_table(["lane", "start"], graph_id="g", around={"intake.a": (4, 10), "intake.b": (0, 99)})

    assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == [
        ("g", 0),
        ("g", 10),
        ("g@back", 0),
    ]
    assert ledger.entries_table(["lane"], around={"intake.a": (35, 99)}).num_rows == 0
    assert ledger.entries_table(["lane"], around={}).num_rows == 0


def test_runs_are_added_up(ledger):
    runs = {run.run_id: run for run in run_page(ledger, WINDOW, 10).runs}

    assert list(runs) == ["run-30", "run-10", "back", "run-0"]
    assert (runs["run-0"].records, runs["run-0"].dead_letters, runs["run-0"].seconds) == (10, 1, 2.0)
    assert (runs["run-10"].recovered, runs["run-10"].records) == (1, 0)


def test_the_totals_are_of_all_runs_also_of_those_that_are_not_listed(ledger):
    page = run_page(ledger, WINDOW, 1)

    assert [run.run_id for run in page.runs] == ["run-30"]
    totals = page.totals
    assert (totals.runs, totals.ranges, totals.recovered, totals.records) == (4, 4, 1, 20)
    assert (totals.dead_letters, totals.seconds) == (3, 8.0)


def test_a_series_counts_each_entry_in_its_bin(ledger):
    found = topic_series(read_drained_over_time(ledger, WINDOW), WINDOW, 4)

    (series,) = found.series
    assert found.times[0] == (START + timedelta(minutes=1)).timestamp()
    assert series.records == [10, 5, 5, 0]


def test_heads_are_known_at_past_times(ledger):
    drained = read_drained_over_time(ledger, WINDOW)
    found = heads_over_time(drained, WINDOW, {("intake.a", 0): 35, ("intake.a", 1): 3}, 4)

    assert found == {("intake.a", 0): [10, 10, 35, 35], ("intake.a", 1): [3, 3, 3, 3]}


def test_the_busiest_topics_keep_a_series_of_their_own_and_the_others_are_added_up():
    quiet, busy, stuck = (TopicSeries(name, [n, n], [0, 1], [0.5, 0.5]) for name, n in (("a", 1), ("b", 9), ("c", 0)))

    found = keep_busiest(Series([1.0, 2.0], [quiet, busy, stuck]), {"c": 50}, 2)

    assert [each.topic for each in found.series] == ["b", "c"]
    assert found.others == TopicSeries("", [1, 1], [0, 1], [0.5, 0.5])


def test_few_topics_have_no_others():
    series = Series([1.0], [TopicSeries("a", [1], [0], [0.5])])

    assert keep_busiest(series, {}, 2) == series


def test_edges_are_counted_from_all_entries(ledger):
    found = read_drained(ledger, WINDOW)

    assert found.edges == {"edge": 20}
    assert found.topics["intake.a"]["records_sum"] == 20


def test_an_empty_ledger_has_nothing_to_show(tmp_path):
    empty = Ledger(Settings(ledger_uri=(tmp_path / "none").as_uri()))

    assert entry_page(empty, WINDOW, limit=10, offset=0).total == 0
    assert run_page(empty, WINDOW, 10).runs == []
    assert run_page(empty, WINDOW, 10).totals.records == 0
    assert topic_series(read_drained_over_time(empty, WINDOW), WINDOW, 4).series == []
    assert read_drained(empty, WINDOW).edges == {}
    assert ledger_faults(empty, "g", ["intake.a"]) == []


def test_entries_that_join_have_no_gap(ledger):
    assert ledger_faults(ledger, "g", ["intake.a"]) == []


def test_a_gap_is_found_even_if_an_overlap_is_as_long(tmp_path):
    damaged = Ledger(Settings(ledger_uri=(tmp_path / "damaged").as_uri()))
    rows = entry_rows([entry(0, 10, 1), entry(15, 20, 2), entry(15, 20, 3)])
    write_deltalake(damaged.entries_uri, rows)  # without the heads, which would refuse it

    kinds = {fault.kind for fault in ledger_faults(damaged, "g", ["intake.a"])}

    assert {"gap", "overlap"} <= kinds

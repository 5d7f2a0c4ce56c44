from __future__ import annotations

from dataclasses import replace

import pytest

from pipestream.demo.live_intake import set_aside
from pipestream.demo.summary import Summary, WayIn, count_ways, summarise
from pipestream.ledger import Tally
from pipestream.ledger.check import Fault, FaultKind
from pipestream.views.audit import TopicAudit
from pipestream.views.drained import drained_rows
from pipestream_testing.made import make_entry

RIGHT = Summary(
    documents_in=240,
    happy_end=234,
    happy_end_in_topic=234,
    error_end=0,
    dead_letters=6,
    dead_letters_in_topics=6,
    faults=(),
)


def audit(topic, *tallies, faults=()):
    entries = tuple(
        make_entry(0, 10, topic=topic, partition=number, tally=tally, seconds=1.5)
        for number, tally in enumerate(tallies)
    )
    return TopicAudit(topic, f"node of {topic}", {}, {}, entries, tuple(faults))


def test_the_summary_is_one_line():
    assert RIGHT.line() == "demo: 240 documents in, 234 at happy-end, 6 dead-lettered, ledger complete"
    assert RIGHT.problems() == []


def test_an_incomplete_ledger_is_said_in_the_line_and_fails_the_demo():
    summary = replace(RIGHT, faults=("intake.a[0]: 3 offsets wait from 7 on",))

    assert summary.line().endswith("6 dead-lettered, ledger INCOMPLETE: intake.a[0]: 3 offsets wait from 7 on")
    assert summary.problems() == ["the ledger is incomplete: intake.a[0]: 3 offsets wait from 7 on"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"documents_in": 241}, "241 documents went in, and 240 reached an end"),
        ({"happy_end_in_topic": 233}, "the ledger counts 234 at happy-end, its topic 233"),
        ({"dead_letters_in_topics": 7}, "the ledger counts 6 dead letters, their topics 7"),
    ],
)
def test_numbers_that_do_not_add_up_fail_the_demo(change, problem):
    assert replace(RIGHT, **change).problems() == [problem]


def test_documents_at_the_error_end_have_ended_too():
    assert replace(RIGHT, happy_end=230, happy_end_in_topic=230, error_end=4).problems() == []


def test_a_row_adds_up_the_ranges_of_its_topic():
    (row,) = drained_rows([audit("intake.a", Tally(10, {"b": 7, "a": 2}, 1), Tally(5, {"b": 5}, 0))])

    assert (row.node_id, row.topic, row.ranges, row.records) == ("node of intake.a", "intake.a", 2, 15)
    assert list(row.documents_out.items()) == [("a", 2), ("b", 12)]
    assert (row.dead_letters, row.seconds) == (1, 3.0)


def test_a_range_whose_numbers_were_lost_counts_as_a_range_without_records():
    (row,) = drained_rows([audit("intake.a", None, Tally(5, {"b": 5}, 0))])

    assert (row.ranges, row.records) == (2, 5)


def test_the_summary_counts_ends_and_dead_letters_over_all_topics():
    fault = Fault(FaultKind.WAITING, "t", 0, "1 offsets wait from 2 on")
    audits = [
        audit("intake.a", Tally(10, {"e": 6, "happy-end": 2}, 2)),
        audit("t", Tally(6, {"happy-end": 4, "error-end": 1}, 1), faults=[fault]),
    ]

    summary = summarise(10, audits, happy_end_in_topic=6, dead_letters_in_topics=3)

    assert summary == Summary(10, 6, 6, 1, 3, 3, ("t[0]: 1 offsets wait from 2 on",))


def test_documents_are_counted_by_the_way_they_came():
    ways = count_ways({"folder": {"a", "b"}, "HTTP": {"c"}}, happy=["a", "c", "c"], dead=["b"])

    assert ways == [WayIn("folder", 2, 1, 1), WayIn("HTTP", 1, 2, 0)]


def test_a_sixth_of_the_good_documents_goes_in_by_each_live_way(tmp_path):
    samples, by_http, by_grpc = (tmp_path / name for name in ("samples", "http", "grpc"))
    for kind in ("txt", "html", "broken"):
        (samples / kind).mkdir(parents=True)
        for number in range(12):
            (samples / kind / f"{kind}-{number:02}").touch()

    set_aside(samples, by_http, by_grpc)

    assert sorted(each.name for each in by_http.iterdir()) == ["html-00", "html-06", "txt-00", "txt-06"]
    assert sorted(each.name for each in by_grpc.iterdir()) == ["html-01", "html-07", "txt-01", "txt-07"]
    assert len(list((samples / "broken").iterdir())) == 12
    assert len(list((samples / "txt").iterdir())) == 8

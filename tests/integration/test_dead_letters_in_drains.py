"""What a drain does with documents that fail: how often it tries, where they go, what they carry, and when it stops."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from types import ModuleType

import pytest
from confluent_kafka import Producer

from pipestream.dead_letters import (
    Act,
    Selection,
    State,
    dead_letter_topics,
    find_dead_letter,
    histogram,
    list_dead_letters,
)
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import RangeFailed
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.engine.dead_letter_record import CONNECT, OWN
from pipestream.errors import ModuleUnavailable
from pipestream.graph.proto import graph_hash
from pipestream.kafka.connection import client_config
from pipestream.kafka.records import header
from pipestream.leases.none import NoLeaseStore
from pipestream.objects.store import open_store
from pipestream.wire import PipeStream
from pipestream_testing.letters import FAILING, PASSING

pytestmark = pytest.mark.stack

SECOND = f"  - id: second\n    module: {FAILING}\n"
FIRST = f"  - id: first\n    module: {PASSING}\n"
FLAKY = "python:pipestream_testing.modules:flaky"


@pytest.fixture
def letters(make_letters):
    return make_letters(chunk_records=10, failing_minimum=1_000)


@pytest.fixture
def intake_dead(unique):
    return f"dlq.intake.{unique}"


def attempts(letter):
    return int(header(letter.record.headers, OWN + "attempts"))


@pytest.fixture
def tries(monkeypatch):
    """When each document was tried, by a module that is never available: ``python:unavailable_module:process``."""
    found = defaultdict(list)

    def process(document, context):
        found[document.doc_id].append(time.monotonic())
        raise ModuleUnavailable(f"not there at try {context.attempt}")

    module = ModuleType("unavailable_module")
    module.process = process
    monkeypatch.setitem(sys.modules, "unavailable_module", module)
    return found


def pauses_ms(times):
    return [(later - earlier) * 1000 for earlier, later in pairwise(times)]


def test_a_document_that_fails_transiently_is_tried_three_times_at_25_to_250_ms_unless_told_otherwise(letters, tries):
    assert (letters.settings.retry_initial_ms, letters.settings.retry_max_ms) == (25, 250)
    letters.pipeline = letters.with_graph(
        "away", (FIRST, "  - id: first\n    module: python:unavailable_module:process\n")
    )
    letters.pipeline.send(letters.intake, ["a"])

    letters.drain(letters.intake)

    (dead,) = letters.pipeline.read(f"dlq.intake.{letters.unique}")
    assert attempts(dead) == 3
    assert header(dead.record.headers, CONNECT + "exception.class.name") == "ModuleUnavailable"
    assert header(dead.record.headers, CONNECT + "exception.message") == "not there at try 3"
    # Jitter takes up to half of a pause away: 25 and 50 ms.
    first, second = pauses_ms(tries["a"])
    assert first >= 12.5
    assert second >= 25


def test_a_nodes_own_policy_says_how_often_and_how_long(letters, tries):
    policy = "    dead_letters: {max_attempts: 4, initial_backoff_ms: 100, max_backoff_ms: 300, multiplier: 3}\n"
    node = f"  - id: first\n    module: python:unavailable_module:process\n{policy}"
    letters.pipeline = letters.with_graph("own-policy", (FIRST, node))
    letters.pipeline.send(letters.intake, ["a"])

    letters.drain(letters.intake)

    (dead,) = letters.pipeline.read(f"dlq.intake.{letters.unique}")
    assert attempts(dead) == 4
    for pause_ms, full_ms in zip(pauses_ms(tries["a"]), (100, 300, 300), strict=True):
        assert pause_ms >= full_ms / 2


@pytest.mark.parametrize(
    ("failures", "policy", "arrives"),
    [
        pytest.param(2, "", True, id="the third try of the default succeeds"),
        pytest.param(3, "", False, id="the fourth would, but there is none"),
        pytest.param(3, "    dead_letters: {max_attempts: 4}\n", True, id="the node allows a fourth"),
        pytest.param(1, "    dead_letters: {max_attempts: 1}\n", False, id="the node allows no second"),
    ],
)
def test_a_document_that_recovers_within_its_tries_is_not_a_dead_letter(letters, failures, policy, arrives):
    node = f"  - id: second\n    module: {FLAKY}\n    config: {{failures: {failures}}}\n{policy}"
    letters.pipeline = letters.with_graph("flaky", (SECOND, node))

    letters.fail("a")

    assert letters.pipeline.doc_ids(letters.happy_end) == ({"a": 1} if arrives else {})
    assert letters.pipeline.doc_ids(letters.dead) == ({} if arrives else {"a": 1})


def test_a_document_that_fails_for_good_is_not_tried_again(letters):
    policy = "    dead_letters: {max_attempts: 9}\n"
    letters.pipeline = letters.with_graph("terminal", (SECOND, SECOND + policy))

    letters.fail("bad")

    (dead,) = letters.pipeline.read(letters.dead)
    assert attempts(dead) == 1


def test_where_dead_letters_are_off_the_run_stops_at_the_document_and_nothing_is_lost(letters):
    letters.pipeline = letters.with_graph("off", (SECOND, SECOND + "    dead_letters: {enabled: false}\n"))
    letters.pipeline.send(letters.intake, [*(f"a{n}" for n in range(12)), "bad", "behind"])
    letters.drain(letters.intake)

    with pytest.raises(RangeFailed, match="bad is bad") as caught:
        letters.drain(letters.second)

    assert not caught.value.transient
    failed = next(each.record for each in letters.pipeline.read(letters.second) if each.doc_id == "bad")
    place = f"{letters.second}[{failed.partition}] offset {failed.offset}"
    assert f"{place} failed at node second, whose dead_letters are not enabled" in str(caught.value)
    assert letters.pipeline.doc_ids(letters.dead) == {}
    assert "bad" not in letters.pipeline.doc_ids(letters.happy_end)
    letters.fix()
    letters.drain(letters.second)
    assert letters.pipeline.doc_ids(letters.happy_end) == {"bad": 1, "behind": 1, **{f"a{n}": 1 for n in range(12)}}
    letters.pipeline.check_ledger_tiles(letters.second)


def test_a_node_may_name_another_topic_for_its_dead_letters_and_they_are_replayed_from_there(letters):
    other = f"{letters.unique}-graveyard"
    letters.pipeline = letters.with_graph("override", (SECOND, SECOND + f"    dead_letters: {{topic: {other}}}\n"))
    letters.pipeline.create_topics()

    letters.fail("good", "bad")

    assert letters.pipeline.doc_ids(other) == {"bad": 1}
    assert letters.pipeline.doc_ids(letters.dead) == {}
    assert other in dead_letter_topics([letters.pipeline.graph], letters.settings)
    report = letters.act(Act.REPLAY, "r1", topics=[other])
    assert report.sent == {letters.second: 1}


def test_where_dead_letters_are_off_a_document_is_not_tried_more_often_than_its_policy_says(letters, tries):
    node = "  - id: first\n    module: python:unavailable_module:process\n    dead_letters: {enabled: false}\n"
    letters.pipeline = letters.with_graph("off", (FIRST, node))
    letters.pipeline.send(letters.intake, ["a"])

    with pytest.raises(RangeFailed, match="not there at try 3") as caught:
        letters.drain(letters.intake)

    assert caught.value.transient
    assert len(tries["a"]) == 3


def test_the_headers_a_record_came_with_stay_in_front_of_the_reasons(letters, intake_dead):
    letters.pipeline = letters.with_graph("broken-entry", (FIRST, f"  - id: first\n    module: {FAILING}\n"))
    stream = PipeStream()
    stream.document.doc_id = stream.document.search_metadata.title = "bad"
    sent = [("trace", b"\xff\x00"), ("tenant", b"acme"), ("trace", b"again"), ("empty", b""), ("none", None)]
    producer = Producer(client_config(letters.settings))
    producer.produce(letters.intake, stream.SerializeToString(), key=b"bad", headers=sent, partition=1)
    assert producer.flush(120) == 0

    letters.drain(letters.intake)

    (dead,) = letters.pipeline.read(intake_dead)
    assert (dead.record.key, dead.record.value) == (b"bad", stream.SerializeToString())
    assert dead.record.headers[: len(sent)] == tuple(sent)
    ours = dead.record.headers[len(sent) :]
    assert len(ours) == len(dict(ours))
    assert all(name.startswith((CONNECT, OWN)) for name, _ in ours)
    connects = {name.removeprefix(CONNECT): value.decode() for name, value in ours if name.startswith(CONNECT)}
    assert "in fail_on_bad\n" in connects.pop("exception.stacktrace")
    assert connects == {
        "topic": letters.intake,
        "partition": "1",
        "offset": "0",
        "connector.name": letters.pipeline.graph.graph_id,
        "task.id": "1",
        "stage": "first",
        "class.name": FAILING,
        "exception.class.name": "ModuleFailed",
        "exception.message": "bad is bad",
    }


def test_a_letter_names_the_version_of_the_graph_it_failed_with(letters):
    letters.fail("bad-1")
    first = graph_hash(letters.pipeline.graph)
    letters.pipeline = letters.with_graph("renamed", ("graph: ", "name: another version\ngraph: "))
    letters.fail("bad-2")
    second = graph_hash(letters.pipeline.graph)

    assert first != second
    assert [(letter.doc_id, letter.graph_id, letter.graph_hash) for letter in letters.listed()] == [
        ("bad-1", letters.unique, first),
        ("bad-2", letters.unique, second),
    ]


def test_the_first_failure_is_remembered_through_every_replay(letters):
    letters.fail("bad")
    (first,) = letters.listed()
    for number in range(2):
        letters.act(Act.REPLAY, f"r{number}")
        letters.drain(letters.second)

    (last,) = letters.listed()

    assert last.first_failed_at == first.first_failed_at == first.failed_at < last.failed_at
    assert last.replays == 2
    assert find_dead_letter(letters.settings, first.letter_id).state is State.REPLAYED


def test_a_range_that_turns_bad_keeps_its_earlier_chunks_and_writes_nothing_of_the_one_that_is_refused(
    letters, intake_dead
):
    letters.settings = letters.settings.model_copy(update={"failing_minimum": 20})
    letters.pipeline = letters.with_graph("broken-entry", (FIRST, f"  - id: first\n    module: {FAILING}\n"))
    early = [f"good-{n}" for n in range(8)] + ["bad-early-0", "bad-early-1"]
    late = [f"bad-{n}" for n in range(10)] + ["good-late"]
    letters.pipeline.send(letters.intake, [*early, *late])

    with pytest.raises(RangeFailed, match=r"12 of 20 records failed.* bad-9 is bad") as caught:
        letters.drain(letters.intake)

    assert not caught.value.transient
    assert letters.pipeline.doc_ids(letters.second) == {f"good-{n}": 1 for n in range(8)}
    assert letters.pipeline.doc_ids(intake_dead) == {"bad-early-0": 1, "bad-early-1": 1}
    (entry,) = letters.pipeline.entries(letters.intake)
    assert (entry.range.start, entry.range.end, entry.tally.records, entry.tally.dead_letters) == (0, 10, 10, 2)


def test_a_run_that_is_told_to_accept_failures_drains_what_another_refused(letters, intake_dead):
    letters.settings = letters.settings.model_copy(update={"failing_minimum": 5})
    letters.pipeline = letters.with_graph("broken-entry", (FIRST, f"  - id: first\n    module: {FAILING}\n"))
    bad = [f"bad-{n}" for n in range(25)]
    letters.pipeline.send(letters.intake, [*bad, "good"])
    with pytest.raises(RangeFailed, match="10 of 10 records failed"):
        letters.drain(letters.intake)
    assert letters.pipeline.doc_ids(intake_dead) == {}
    assert letters.pipeline.entries(letters.intake) == []

    request = DrainRequest(letters.pipeline.graph, letters.intake, "accepting", 1_000, accept_failures=True)
    report = run_drain(request, letters.settings, LocalRunner(letters.settings), leases=NoLeaseStore())

    assert (report.status, report.records, report.dead_letters) == ("drained", 26, 25)
    assert letters.pipeline.doc_ids(intake_dead) == dict.fromkeys(bad, 1)
    assert letters.pipeline.doc_ids(letters.second) == {"good": 1}
    letters.pipeline.check_ledger_tiles(letters.intake)


@pytest.fixture
def mix(letters, intake_dead):
    """Letters of two nodes, three kinds of error and two times; ``bad-3`` is the youngest."""
    letters.pipeline.send_bytes(letters.intake, b"\xff no stream", key=b"broken")
    letters.pipeline.send(letters.intake, ["bad-1", "bad-2", "gone"])
    letters.drain(letters.intake)
    (gone,) = [letter for letter in letters.pipeline.read(letters.second) if letter.doc_id == "gone"]
    with open_store(letters.settings.store_uri, letters.settings) as store:
        store.delete(f"streams/acme/{gone.stream.stream_id}/first.pb")
    letters.drain(letters.second)
    letters.fail("bad-3")
    letters.topics = (letters.dead, intake_dead)
    return letters


def select(letters, **filters):
    """Return the documents of the letters that wait and are selected."""
    return sorted(letter.doc_id for letter in list_dead_letters(letters.settings, letters.topics, Selection(**filters)))


def time_of(letters, doc_id):
    (found,) = list_dead_letters(letters.settings, letters.topics, Selection(doc_ids=(doc_id,)))
    return found.failed_at


EVERYTHING = ["bad-1", "bad-2", "bad-3", "broken", "gone"]


def test_letters_of_a_mix_are_listed_by_node_by_error_and_by_time(mix):
    youngest = time_of(mix, "bad-3")
    oldest = time_of(mix, "broken")

    assert select(mix) == EVERYTHING
    assert select(mix, nodes=("first",)) == ["broken"]
    assert select(mix, nodes=("sec*",)) == ["bad-1", "bad-2", "bad-3", "gone"]
    assert select(mix, nodes=("first", "second")) == EVERYTHING
    assert select(mix, errors=("ModuleFailed",)) == ["bad-1", "bad-2", "bad-3"]
    assert select(mix, errors=("Record*", "Document*")) == ["broken", "gone"]
    assert select(mix, since=youngest) == ["bad-3"]
    assert select(mix, until=youngest) == ["bad-1", "bad-2", "broken", "gone"]
    assert select(mix, until=oldest + timedelta(milliseconds=1)) == ["broken"]
    assert select(mix, since=oldest + timedelta(milliseconds=1), until=youngest) == ["bad-1", "bad-2", "gone"]
    assert select(mix, nodes=("second",), errors=("ModuleFailed",), until=youngest) == ["bad-1", "bad-2"]


def test_the_histogram_of_a_mix_counts_its_nodes_and_errors(mix):
    counted = histogram(list_dead_letters(mix.settings, mix.topics))

    assert counted.total == 5
    assert counted.by_node == {"first": 1, "second": 4}
    assert counted.by_error == {"ModuleFailed": 3, "RecordInvalid": 1, "DocumentMissing": 1}


def test_only_the_letters_of_a_mix_that_a_filter_selects_are_replayed(mix):
    youngest = time_of(mix, "bad-3")

    def replay(name, **filters):
        report = mix.act(Act.REPLAY, name, topics=mix.topics, selection=Selection(**filters))
        return report.sent, select(mix)

    assert replay("by-error", errors=("Document*",)) == ({mix.second: 1}, ["bad-1", "bad-2", "bad-3", "broken"])
    assert replay("by-node", nodes=("first",)) == ({mix.intake: 1}, ["bad-1", "bad-2", "bad-3"])
    assert replay("by-time", since=youngest) == ({mix.second: 1}, ["bad-1", "bad-2"])
    assert mix.replayed() == ["bad-3", "gone"]
    assert replay("the-rest", until=youngest) == ({mix.second: 2}, [])
    assert mix.replayed() == ["bad-1", "bad-2", "bad-3", "gone"]

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from pipestream.deployment.versions import GraphVersions, find_version
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import RangeFailed
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.engine.dead_letter_record import CONNECT, OWN
from pipestream.errors import RequestInvalid
from pipestream.graph.proto import graph_hash
from pipestream.kafka.records import header
from pipestream.leases import open_lease_store
from pipestream.leases.names import lease_name
from pipestream.leases.none import NoLeaseStore
from pipestream.ledger import EntryKind
from pipestream.objects.store import open_store
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream.wire import PipeDoc

pytestmark = pytest.mark.stack


@pytest.fixture
def pipeline(pipeline):
    pipeline.settings = pipeline.settings.model_copy(update={"chunk_records": 10})
    return pipeline


@pytest.fixture
def topics(unique):
    class Topics:
        intake = f"intake.{unique}"
        second = f"pipestream.{unique}.second"
        happy_end = f"pipestream.{unique}.happy-end"
        intake_dead = f"dlq.intake.{unique}"
        second_dead = f"dlq.{unique}.second"

    return Topics


def test_every_document_arrives_once_and_the_ledger_tells_of_every_range(pipeline, topics):
    pipeline.send(topics.intake, [f"a{n}" for n in range(25)], partition=0)
    pipeline.send(topics.intake, [f"b{n}" for n in range(7)], partition=1)

    report = pipeline.drain(topics.intake, "run-1")

    assert (report.status, report.ranges, report.records, report.dead_letters) == ("drained", 2, 32, 0)
    assert report.documents_out == {"first--second": 32}
    assert pipeline.doc_ids(topics.second) == dict.fromkeys(
        [*(f"a{n}" for n in range(25)), *(f"b{n}" for n in range(7))], 1
    )
    pipeline.check_ledger_tiles(topics.intake)


def test_a_document_goes_from_intake_to_the_happy_end_and_is_stored_on_the_way(pipeline, topics):
    pipeline.send(topics.intake, ["a1"])

    pipeline.drain(topics.intake, "run-1")
    pipeline.drain(topics.second, "run-2")

    (arrived,) = pipeline.read(topics.happy_end)
    stream = arrived.stream
    assert list(stream.processing_path) == ["first", "second"]
    assert [hop.hop_number for hop in stream.metadata.history] == [1, 2]
    key = f"streams/acme/{stream.stream_id}/second.pb"
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        document = PipeDoc.FromString(store.get(key))
    assert dict(document.search_metadata.metadata) == {"first": "seen", "second": "seen"}


def test_a_fused_edge_reaches_the_happy_end_in_one_drain(pipeline, topics):
    pipeline.send(topics.intake, ["fused-1", "fused-2"])

    report = pipeline.drain(topics.intake, "run-1")

    assert report.documents_out == {"happy-end": 2}
    assert pipeline.doc_ids(topics.happy_end) == {"fused-1": 1, "fused-2": 1}


def test_a_second_drain_finds_nothing_to_do(pipeline, topics):
    pipeline.send(topics.intake, ["a1"])
    pipeline.drain(topics.intake, "run-1")

    report = pipeline.drain(topics.intake, "run-2")

    assert (report.status, report.reason) == ("empty", f"nothing waits in {topics.intake}")


def test_a_drain_stops_at_its_budget_and_the_next_continues_there(pipeline, topics):
    pipeline.send(topics.intake, [f"a{n}" for n in range(30)])

    first = pipeline.drain(topics.intake, "run-1", budget=14)
    second = pipeline.drain(topics.intake, "run-2")

    assert (first.records, second.records) == (14, 16)
    assert pipeline.doc_ids(topics.second) == {f"a{n}": 1 for n in range(30)}
    pipeline.check_ledger_tiles(topics.intake)


def test_transaction_markers_in_a_topic_do_not_stop_its_drain(pipeline, topics):
    # A drained topic holds markers: two drains of the first leave several in the second.
    for number in range(3):
        pipeline.send(topics.intake, [f"a{number}"])
        pipeline.drain(topics.intake, f"run-{number}")

    report = pipeline.drain(topics.second, "run-9")

    assert report.records == 3
    pipeline.check_ledger_tiles(topics.second)


def test_a_document_that_fails_is_a_dead_letter_with_its_own_bytes_and_the_reason(pipeline, topics):
    pipeline.send(topics.intake, ["good", "bad"])
    pipeline.drain(topics.intake, "run-1")
    (original,) = [letter.record for letter in pipeline.read(topics.second) if letter.doc_id == "bad"]

    report = pipeline.drain(topics.second, "run-2")

    assert (report.documents_out, report.dead_letters) == ({"happy-end": 1}, 1)
    (dead,) = [letter.record for letter in pipeline.read(topics.second_dead)]
    assert (dead.key, dead.value) == (original.key, original.value)
    assert header(dead.headers, CONNECT + "exception.class.name") == "ModuleFailed"
    assert header(dead.headers, CONNECT + "exception.message") == "bad is bad"
    assert header(dead.headers, CONNECT + "topic") == topics.second
    assert header(dead.headers, CONNECT + "offset") == str(original.offset)
    assert header(dead.headers, OWN + "run") == "run-2"
    assert header(dead.headers, OWN + "attempts") == "1"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(b"\xff\xff not a message", "not a PipeStream", id="bytes that are no message"),
        pytest.param(None, "has no value", id="no value"),
        pytest.param(b"", "neither a document nor a reference", id="an empty message"),
    ],
)
def test_a_record_that_is_not_a_stream_is_a_dead_letter_of_its_datasource(pipeline, topics, value, reason):
    pipeline.send_bytes(topics.intake, value)
    pipeline.send(topics.intake, ["good"])

    report = pipeline.drain(topics.intake, "run-1")

    assert (report.documents_out, report.dead_letters) == ({"first--second": 1}, 1)
    (dead,) = [letter.record for letter in pipeline.read(topics.intake_dead)]
    assert dead.value == value
    assert reason in header(dead.headers, CONNECT + "exception.message")


def test_a_reference_to_a_missing_object_is_a_dead_letter(pipeline, topics):
    pipeline.send(topics.intake, ["a1"])
    pipeline.drain(topics.intake, "run-1")
    (letter,) = pipeline.read(topics.second)
    with open_store(pipeline.settings.store_uri, pipeline.settings) as store:
        store.delete(f"streams/acme/{letter.stream.stream_id}/first.pb")

    report = pipeline.drain(topics.second, "run-2")

    assert report.dead_letters == 1
    (dead,) = pipeline.read(topics.second_dead)
    assert header(dead.record.headers, CONNECT + "exception.class.name") == "DocumentMissing"


def test_a_range_that_mostly_fails_stops_before_its_dead_letters_are_written(pipeline, topics):
    pipeline.send(topics.intake, [f"bad{n}" for n in range(30)])
    pipeline.drain(topics.intake, "run-1")
    pipeline.settings = pipeline.settings.model_copy(update={"failing_minimum": 5})

    with pytest.raises(RangeFailed, match=r"(\d+) of \1 records failed") as caught:
        pipeline.drain(topics.second, "run-2")

    assert not caught.value.transient
    assert pipeline.read(topics.second_dead) == []
    assert pipeline.entries(topics.second) == []


def test_while_one_run_holds_the_lease_another_is_skipped_and_told_who_holds_it(pipeline, topics):
    pipeline.send(topics.intake, ["a1"])
    leases = open_lease_store(pipeline.settings)
    lease = leases.acquire(lease_name(topics.intake, pipeline.graph.graph_id), 0, "run-1@elsewhere:1", 600)

    report = pipeline.drain(topics.intake, "run-2")

    assert report.status == "skipped"
    assert "run-1@elsewhere:1" in report.reason
    leases.release(lease)
    assert pipeline.drain(topics.intake, "run-3").records == 1
    leases.close()


def test_a_run_that_died_between_commit_and_entry_is_recovered_and_its_work_is_not_redone(pipeline, topics):
    pipeline.send(topics.intake, [f"a{n}" for n in range(25)])

    def lose_the_answers(tasks):
        list(LocalRunner(pipeline.settings)(tasks))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.drain(topics.intake, "run-1", runner=lose_the_answers)
    assert pipeline.entries(topics.intake) == []

    pipeline.send(topics.intake, ["late"])
    report = pipeline.drain(topics.intake, "run-2")

    recovered, drained = pipeline.entries(topics.intake)
    assert (recovered.kind, drained.kind) == (EntryKind.RECOVERED, EntryKind.DRAINED)
    assert recovered.tally.records == 25  # known from the note that was committed with the offset
    assert (report.recovered_ranges, report.records) == (1, 26)
    assert pipeline.doc_ids(topics.second) == {"late": 1, **{f"a{n}": 1 for n in range(25)}}
    pipeline.check_ledger_tiles(topics.intake)


def test_a_retry_resumes_its_own_plan_and_leaves_what_came_later(pipeline, topics):
    pipeline.send(topics.intake, [f"a{n}" for n in range(5)])

    def die(_tasks):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.drain(topics.intake, "run-1", runner=die)
    pipeline.send(topics.intake, ["late"])

    report = pipeline.drain(topics.intake, "run-1")

    assert report.records == 5
    assert "late" not in pipeline.doc_ids(topics.second)


def test_a_topic_of_another_graph_is_refused_and_nothing_is_written_down(pipeline, topics, unique):
    nowhere = f"intake.{unique}-other"
    TopicAdmin(pipeline.settings).create([TopicSpec(nowhere, 1, -1, Purpose.INTAKE)])
    pipeline.send(nowhere, ["a1"])

    with pytest.raises(RequestInvalid, match=f"graph {unique} does not drain {nowhere}; it drains {topics.intake}, "):
        pipeline.drain(nowhere, "run-1")

    assert pipeline.ledger.heads(unique, nowhere, [0]) == {}
    assert not pipeline.ledger.plans(run_id="run-1")


def test_a_retry_uses_the_graph_its_run_planned_with_not_the_one_applied_since(pipeline, topics):
    pipeline.send(topics.intake, ["a1"])
    planned_with = pipeline.graph
    versions = GraphVersions(pipeline.settings)
    versions.save(planned_with, applied_by="test")

    def die(_tasks):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.drain(topics.intake, "run-1", runner=die)
    # The new version has no edge that takes the document to the second node.
    pipeline.graph = replace(planned_with, edges=())
    versions.save(pipeline.graph, applied_by="test")
    versions.close()

    request = DrainRequest(pipeline.graph, topics.intake, "run-1", 100)
    find_graph = partial(find_version, pipeline.settings, planned_with.graph_id)
    runner = LocalRunner(pipeline.settings)
    report = run_drain(request, pipeline.settings, runner, leases=NoLeaseStore(), find_graph=find_graph)

    assert report.documents_out == {"first--second": 1}
    (entry,) = pipeline.entries(topics.intake)
    (plan,) = pipeline.ledger.plans(topic=topics.intake)
    assert entry.graph_hash == plan.graph_hash == graph_hash(planned_with)

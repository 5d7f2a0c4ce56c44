"""Documents that are handed to an engine, on real Kafka, PostgreSQL and S3."""

from __future__ import annotations

import os

import grpc
import pytest

from pipestream.documents.identity import prepare
from pipestream.documents.references import upload_key
from pipestream.engine.dead_letter_record import FOR_GRAPH
from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.gen.pipestream.live.v1.handoff_service_pb2 import Handoff, HandoffBatchRequest
from pipestream.kafka.records import header
from pipestream.objects.store import open_store
from pipestream.wire import PipeDoc
from pipestream_testing.engines import apply, engine, handoff
from pipestream_testing.pipeline import read_topic
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack
STEPS = "python:pipestream_testing.steps"
Status = pb.IntakeHandoffStreamResponse


def graph_text(unique, graph="one", **changes):
    text = f"""
graph: {unique}-{graph}
cluster: {unique}
datasources: [{{id: {unique}, account: acme, entry: first}}]
nodes:
  - {{id: first, type: connector}}
  - {{id: second, module: "{STEPS}:fail_on_bad"}}
edges: [{{from: first, to: second}}]
"""
    for old, new in changes.get("replace", {}).items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def topic(unique):
    return f"pipestream.{unique}.second"


def test_a_document_is_stored_and_its_reference_is_committed_when_the_call_is_answered(live, unique, topic):
    live.apply(graph_text(unique))

    answer = live.hand_off(unique, "doc-1")
    (found,) = read_topic(live.settings, topic)

    assert answer.accepted
    assert answer.entry_node_id == "first"
    assert answer.assigned_stream_id == found.stream.stream_id
    assert found.stream.current_node_id == "second"
    assert found.stream.metadata.account_id == "acme"
    assert [hop.node_id for hop in found.stream.metadata.history] == ["first"]
    with open_store(live.settings.store_uri, live.settings) as store:
        document = PipeDoc.FromString(store.get(f"streams/acme/{found.stream.stream_id}/first.pb"))
    assert document.search_metadata.title == "doc-1"


def test_a_repeated_key_is_answered_as_the_first_and_published_once_also_after_a_restart(settings, unique, topic):
    apply(settings, graph_text(unique))

    with engine(settings, engine_name=unique) as running:
        first = running.hand_off(unique, "doc-1", key="k1")
        second = running.hand_off(unique, "doc-1", key="k1")
        with pytest.raises(grpc.RpcError) as other:
            running.hand_off(unique, "another", key="k1")
    with engine(settings, engine_name=unique) as running:
        third = running.hand_off(unique, "doc-1", key="k1")
        by_stream_id = [running.stub.IntakeHandoff(with_stream_id(unique, "doc-2", "s-2")) for _ in range(2)]
        found = read_topic(settings, topic)

    assert first.assigned_stream_id == second.assigned_stream_id == third.assigned_stream_id
    assert other.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert by_stream_id[0].assigned_stream_id == by_stream_id[1].assigned_stream_id
    assert sorted(each.doc_id for each in found) == ["doc-1", "doc-2"]


def with_stream_id(datasource_id, doc_id, stream_id):
    request = handoff(datasource_id, doc_id)
    request.stream.stream_id = stream_id
    return request


def test_without_a_key_every_call_is_a_document_of_its_own(live, unique, topic):
    live.apply(graph_text(unique))

    answers = [live.hand_off(unique, "doc-1") for _ in range(2)]
    found = read_topic(live.settings, topic)

    assert len({answer.assigned_stream_id for answer in answers}) == 2
    assert len(found) == 2


def test_every_graph_with_an_entry_for_the_datasource_gets_the_document(live, unique, topic):
    live.apply(graph_text(unique))
    live.apply(graph_text(unique, "two", replace={"second": "third"}))

    answer = live.hand_off(unique, "doc-1")
    found = read_topic(live.settings, topic), read_topic(live.settings, f"pipestream.{unique}.third")

    assert answer.accepted
    assert [[each.doc_id for each in records] for records in found] == [["doc-1"], ["doc-1"]]
    assert f"graph {unique}-one" in answer.message
    assert f"graph {unique}-two" in answer.message
    assert found[0][0].stream.stream_id != found[1][0].stream.stream_id


def test_what_no_graph_takes_is_not_accepted_and_the_answer_says_why(live, unique):
    live.apply(graph_text(unique, replace={"entry: first": "entry: first, paused: true"}))
    design = graph_text(
        unique, "two", replace={f"id: {unique},": f"id: {unique}d,", "cluster: ": "mode: design\ncluster: "}
    )
    live.apply(design)

    unknown = live.hand_off("nobody", "doc-1")
    paused = live.hand_off(unique, "doc-1")
    in_design = live.hand_off(f"{unique}d", "doc-1")

    assert not unknown.accepted
    assert "no applied graph has the datasource 'nobody'" in unknown.message
    assert not paused.accepted
    assert "paused" in paused.message
    assert not in_design.accepted
    assert "in design" in in_design.message


def test_a_target_entry_node_must_be_the_datasources_entry(live, unique):
    live.apply(graph_text(unique))

    right = live.hand_off(unique, "doc-1", target_entry_node_id="first")
    wrong = live.hand_off(unique, "doc-2", target_entry_node_id="second")

    assert right.accepted
    assert not wrong.accepted
    assert f"it enters {unique}-one at first" in wrong.message


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"account_id": "other"}, "INVALID_ARGUMENT"),
        ({"stream": {"document_ref": {"doc_id": "x", "object_key": "documents/other/x/y.pb"}}}, "INVALID_ARGUMENT"),
        ({"stream": {"document_ref": {"doc_id": "x", "object_key": "documents/acme/x/y.pb"}}}, "NOT_FOUND"),
        ({"stream": {"metadata": {"account_id": "other"}, "document": {"doc_id": "x"}}}, "INVALID_ARGUMENT"),
    ],
)
def test_a_request_that_cannot_be_taken_in_gets_an_error_and_nothing_is_written(live, unique, topic, fields, code):
    live.apply(graph_text(unique))

    with pytest.raises(grpc.RpcError) as failed:
        live.hand_off(unique, "doc-1", **fields)
    found = read_topic(live.settings, topic)

    assert failed.value.code().name == code
    assert found == []


def test_a_document_that_fails_is_accepted_and_becomes_the_dead_letter_of_a_drain(live, unique):
    failing = graph_text(
        unique, replace={"{id: first, type: connector}": f'{{id: first, module: "{STEPS}:fail_on_bad"}}'}
    )
    live.apply(failing)

    answer = live.hand_off(unique, "bad-1")
    (letter,) = read_topic(live.settings, f"dlq.intake.{unique}")

    assert answer.accepted
    assert "dead letter" in answer.message
    assert header(letter.record.headers, "__connect.errors.exception.class.name") == "ModuleFailed"
    assert letter.stream.document.doc_id == "bad-1"


def test_a_large_document_goes_through_the_object_store_and_the_intake_topic(live, unique, topic):
    live.apply(graph_text(unique))

    large = live.hand_off(unique, "large", key="k", body="x" * 1_100_000)
    again = live.hand_off(unique, "large", key="k", body="x" * 1_100_000)
    wished = live.stub.IntakeHandoff(
        handoff(unique, "wished", body="x" * 1_100_000), metadata=[("pipestream-path", "direct")]
    )
    stored = live.stub.IntakeHandoff(handoff(unique, "small"), metadata=[("pipestream-path", "stored")])
    intake, direct = read_topic(live.settings, f"intake.{unique}"), read_topic(live.settings, topic)

    assert large.accepted
    assert again == large
    assert wished.accepted
    assert stored.accepted
    assert sorted(each.stream.document_ref.doc_id for each in intake) == ["large", "small"]
    assert [each.doc_id for each in direct] == ["wished"]
    with open_store(live.settings.store_uri, live.settings) as store:
        for each in intake:
            assert (
                PipeDoc.FromString(store.get(each.stream.document_ref.object_key)).doc_id
                == each.stream.document_ref.doc_id
            )


@pytest.mark.parametrize("hydration", ["{policy: always_ref}", "{max_inline_blob_size_bytes: 5}"])
def test_the_blobs_of_a_document_that_is_stored_first_are_stored_too(live, unique, hydration):
    live.apply(graph_text(unique, replace={"entry: first": f"entry: first, path: stored, hydration: {hydration}"}))
    request = handoff(unique, "doc-1")
    request.stream.document.blob_bag.blob.data = b"the bytes of a file"

    answer = live.stub.IntakeHandoff(request, timeout=120)
    (intake,) = read_topic(live.settings, f"intake.{unique}")
    with open_store(live.settings.store_uri, live.settings) as store:
        document = PipeDoc.FromString(store.get(intake.stream.document_ref.object_key))
        blob = document.blob_bag.blob

        assert answer.accepted
        assert not blob.data
        assert store.get(blob.storage_ref.object_key) == b"the bytes of a file"


def test_a_stored_document_for_one_graph_is_passed_over_by_the_others(live, unique):
    live.apply(graph_text(unique))
    live.apply(graph_text(unique, "two", replace={"first": "other"}))
    stored = [("pipestream-path", "stored")]
    by_graph = handoff(unique, "by-graph")
    by_graph.stream.metadata.graph_id = f"{unique}-one"

    for request in (by_graph, handoff(unique, "by-node", target_entry_node_id="other"), handoff(unique, "for-all")):
        assert live.stub.IntakeHandoff(request, timeout=120, metadata=stored).accepted
    intake = read_topic(live.settings, f"intake.{unique}")

    assert {each.stream.document_ref.doc_id: header(each.record.headers, FOR_GRAPH) for each in intake} == {
        "by-graph": f"{unique}-one",
        "by-node": f"{unique}-two",
        "for-all": None,
    }


def test_a_document_of_a_datasource_with_several_accounts_starts_only_in_the_one_that_the_call_names(
    live, unique, topic
):
    live.apply(graph_text(unique))
    live.apply(graph_text(unique, "two", replace={"second": "third", "account: acme": "account: bert"}))

    with pytest.raises(grpc.RpcError) as refused:
        live.hand_off(unique, "of-nobody")
    live.hand_off(unique, "of-acme", account_id="acme")
    stored = [("pipestream-path", "stored")]
    live.stub.IntakeHandoff(handoff(unique, "of-bert", account_id="bert"), timeout=120, metadata=stored)
    direct = read_topic(live.settings, topic, f"pipestream.{unique}.third")
    (intake,) = read_topic(live.settings, f"intake.{unique}")

    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "acme, bert" in refused.value.details()
    assert [(each.doc_id, each.stream.metadata.account_id) for each in direct] == [("of-acme", "acme")]
    assert intake.stream.metadata.account_id == "bert"
    assert header(intake.record.headers, FOR_GRAPH) == f"{unique}-two"


def test_a_repeat_gets_the_first_answer_also_after_the_datasource_was_paused(live, unique):
    live.apply(graph_text(unique))
    first = live.hand_off(unique, "doc-1", key="k")
    live.apply(graph_text(unique, replace={"entry: first": "entry: first, paused: true"}))

    assert live.hand_off(unique, "doc-1", key="k").assigned_stream_id == first.assigned_stream_id
    assert not live.hand_off(unique, "doc-2", key="k2").accepted


def test_a_datasource_can_ask_for_the_stored_path(live, unique, topic):
    live.apply(graph_text(unique, replace={"entry: first": "entry: first, path: stored"}))

    live.hand_off(unique, "doc-1")
    intake, direct = read_topic(live.settings, f"intake.{unique}"), read_topic(live.settings, topic)

    assert len(intake) == 1
    assert direct == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_document_that_is_stored_already_is_referred_to_where_it_is_there(live, unique, topic, is_there):
    source = live.apply(graph_text(unique)).datasources[0]
    request = handoff(unique, "doc-1", doc_stored_in_repo=True)
    prepared = prepare(request.stream.document, source)
    key = upload_key("acme", unique, "doc-1", prepared.checksum)
    request.stream.document.ParseFromString(prepared.data)
    with open_store(live.settings.store_uri, live.settings) as store:
        if is_there:
            store.put(key, prepared.data)

        answer = live.stub.IntakeHandoff(request, timeout=120)
        (found,) = read_topic(live.settings, topic)
        own = f"streams/acme/{found.stream.stream_id}/first.pb"

        assert answer.accepted
        assert found.stream.document_ref.object_key == (key if is_there else "")
        assert store.exists(own) != is_there


def test_a_document_that_was_stored_long_ago_is_written_again_before_it_is_referred_to(settings, unique, tmp_path):
    settings = settings.model_copy(update={"store_uri": (tmp_path / "objects").as_uri()})
    source = apply(settings, graph_text(unique)).datasources[0]
    request = handoff(unique, "doc-1", doc_stored_in_repo=True)
    prepared = prepare(request.stream.document, source)
    key = upload_key("acme", unique, "doc-1", prepared.checksum)
    request.stream.document.ParseFromString(prepared.data)
    with engine(settings, engine_name=unique) as running, open_store(settings.store_uri, settings) as store:
        store.put(key, prepared.data)
        (listed,) = store.describe(key.rpartition("/")[0])
        os.utime(tmp_path / "objects" / key, (1_700_000_000, 1_700_000_000))
        (old,) = store.describe(key.rpartition("/")[0])

        answer = running.stub.IntakeHandoff(request, timeout=120)

        assert answer.accepted
        assert old.modified_at < listed.modified_at
        assert store.delete_unchanged([old]) == []
        assert store.get(key) == prepared.data


def code_of(running, unique):
    with pytest.raises(grpc.RpcError) as refused:
        running.hand_off(unique, "doc-2", timeout_s=2)
    return refused.value.code().name


def test_calls_beyond_what_the_threads_take_are_refused_and_the_engine_goes_on(settings, unique):
    slow = graph_text(
        unique, replace={"{id: first, type: connector}": f'{{id: first, module: "{STEPS}:take_a_minute"}}'}
    )
    apply(settings, slow)
    with engine(settings, engine_name=unique, engine_threads=1, engine_threads_waiting=0) as running:
        first = running.stub.IntakeHandoff.future(handoff(unique, "doc-1"), timeout=20)
        wait_until(lambda: running.running.overview.active)
        is_refused = wait_until(lambda: code_of(running, unique) == "RESOURCE_EXHAUSTED")
        first.cancel()
        health = running.stub.GetHealth(pb.GetHealthRequest(), timeout=60)

    assert is_refused
    assert health.health == pb.ENGINE_HEALTH_HEALTHY


def test_a_stream_of_handoffs_answers_each_one_with_its_own_status(live, unique, topic):
    live.apply(graph_text(unique))
    live.apply(graph_text(unique, "two", replace={f"id: {unique},": f"id: {unique}p, paused: true,"}))
    sources = [unique] * 20 + [f"{unique}p", "nobody"]
    requests = [
        pb.IntakeHandoffStreamRequest(
            handoff_id=f"h{number}", sequence=number, request=handoff(source, f"doc-{number}")
        )
        for number, source in enumerate(sources)
    ]
    requests[5].request.account_id = "other"

    answers = {each.handoff_id: each for each in live.stub.IntakeHandoffStream(iter(requests), timeout=120)}
    found = read_topic(live.settings, topic)

    assert len(answers) == 22
    assert answers["h3"].status == Status.STATUS_ACCEPTED
    assert answers["h3"].sequence == 3
    assert answers["h5"].status == Status.STATUS_PERMANENT_REJECTED
    assert answers["h20"].status == Status.STATUS_RETRYABLE_REJECTED
    assert answers["h21"].status == Status.STATUS_PERMANENT_REJECTED
    assert len(found) == 19


def test_a_batch_answers_each_document_in_order_and_a_repeated_key_once(live, unique, topic):
    live.apply(graph_text(unique))
    batch = HandoffBatchRequest(
        handoffs=[Handoff(key=f"k{number}", request=handoff(unique, f"doc-{number}")) for number in range(10)]
    )
    batch.handoffs[4].request.account_id = "other"

    first = live.batches.HandoffBatch(batch, timeout=120)
    second = live.batches.HandoffBatch(batch, timeout=120)
    found = read_topic(live.settings, topic)

    assert [answer.status for answer in first.answers].count(Status.STATUS_ACCEPTED) == 9
    assert first.answers[4].status == Status.STATUS_PERMANENT_REJECTED
    assert first.answers[4].error_code == "INVALID_ARGUMENT"
    assert [answer.response.assigned_stream_id for answer in first.answers] == [
        answer.response.assigned_stream_id for answer in second.answers
    ]
    assert len(found) == 9

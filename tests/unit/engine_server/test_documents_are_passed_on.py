"""Documents that a node only routes take a short way through the engine. It must lead where the long one leads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

from pipestream.deployment.versions import ActiveGraph
from pipestream.engine_server import inline_passage
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk, carry_job
from pipestream.engine_server.doors import Doors
from pipestream.engine_server.graphs import Directory
from pipestream.engine_server.handoff import Handoffs
from pipestream.engine_server.served import ServedGraph
from pipestream.errors import RecordInvalid, TimeBudgetSpent
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeStream

GRAPH = b"""
graph: passing
cluster: passing
datasources:
  - {id: inline, account: acme, entry: start, persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
  - {id: stored, account: acme, entry: start}
nodes:
  - {id: start, type: connector}
  - {id: one, type: connector}
  - {id: two, type: connector}
edges:
  - {from: start, to: one, id: pdf, when: 'doc.search_metadata.document_type == "PDF"'}
  - {from: start, to: two, id: long, when: 'doc.search_metadata.content_length > 1000'}
"""


class Slot:
    """Accepts at once, and keeps what was submitted."""

    def __init__(self):
        self.submissions = []

    def find(self, _key, _content):
        return None

    def submit_from(self, loop, submission):
        self.submissions.append(submission)
        done = loop.create_future()
        done.set_result(submission.answer)
        return done

    def submit_many_from(self, loop, submissions):
        self.submissions += submissions
        done = loop.create_future()
        done.set_result([each.answer for each in submissions])
        return done


@pytest.fixture
def slot():
    return Slot()


@pytest.fixture
def handoffs(tmp_path, slot):
    settings = Settings()
    with open_store(tmp_path.as_uri(), settings) as store:
        graph = check_graph_text(GRAPH, "passing.yaml").require()
        served = ServedGraph(ActiveGraph(1, built(graph)), settings, "here:1", store)
        doors = Doors(SimpleNamespace(directory=Directory({"passing": served}, 1)), settings, "test")
        desk = Desk(settings, SimpleNamespace(for_key=lambda _: slot, any=lambda: slot), store)
        yield Handoffs(desk, doors)
        desk.close()


def request_of(datasource_id="inline", document_type="PDF", length=0):
    request = IntakeHandoffRequest(datasource_id=datasource_id)
    document = request.stream.document
    document.doc_id = "doc-1"
    document.search_metadata.document_type, document.search_metadata.content_length = document_type, length
    return request


def job_of(handoffs, request, key="key-1"):
    (job,) = handoffs._jobs(handoffs._begin(request, Caller(key)))
    return job


def at_noon(job):
    """Return a job whose clock stands still, so that two results of it can be compared."""
    noon = lambda: 1_800_000_000.5  # noqa: E731
    for passage in (job.passage, job.inline_passage):
        if passage is not None:
            passage._now = noon
    carrier = job.carrier
    return job._replace(carrier=replace(carrier, services=replace(carrier.services, now=noon)))


@pytest.mark.parametrize("datasource_id", ["inline", "stored"])
@pytest.mark.parametrize(
    ("document_type", "length"), [("PDF", 0), ("HTML", 2_000), ("PDF", 2_000), ("HTML", 0)], ids=str
)
def test_the_short_way_leads_to_the_same_bytes(handoffs, datasource_id, document_type, length):
    made = [at_noon(job_of(handoffs, request_of(datasource_id, document_type, length))) for _ in range(2)]
    short, long = made[0]._replace(inline_passage=None), made[1]._replace(passage=None)

    assert short.passage is not None
    passed, carried = (carry_job(job, handoffs._desk.store, None) for job in (short, long))

    assert (passed.outputs, passed.objects, passed.sent) == (carried.outputs, carried.objects, carried.sent)
    assert passed.outputs
    assert (passed.document_keys, passed.for_segments) == (carried.document_keys, carried.for_segments)


def visited(request):
    """Return a request whose stream says that it has been somewhere."""
    stream = request.stream
    stream.stream_id, stream.hop_count, stream.current_node_id, stream.cluster_id = "s-1", 3, "elsewhere", "other"
    stream.processing_path.extend(["elsewhere", "start"])
    stream.metadata.account_id, stream.metadata.trace_id = "acme", "trace"
    stream.metadata.last_processed_at.seconds = 5
    stream.metadata.history.add(node_id="elsewhere", hop_number=2)
    stream.metadata.context_params["from"] = "elsewhere"
    return request


def nameless(request):
    request.stream.document.doc_id = ""
    return request


@pytest.mark.parametrize("change", [lambda request: request, visited, nameless], ids=["new", "visited", "nameless"])
@pytest.mark.parametrize(("document_type", "length"), [("PDF", 0), ("HTML", 2_000)])
def test_a_document_that_stays_in_its_record_says_the_same_on_the_shortest_way(handoffs, document_type, length, change):
    requests = [change(request_of("inline", document_type, length)) for _ in range(2)]
    short, long = (at_noon(job_of(handoffs, request)) for request in requests)

    passed = short.inline_passage.pass_on(short.arrival, short.arrival.stream)
    carried = carry_job(long._replace(passage=None), None, None)

    assert passed is not None
    (output,), (expected,) = passed.outputs, carried.outputs
    assert PipeStream.FromString(output.value) == PipeStream.FromString(expected.value)
    assert output._replace(value=expected.value) == expected
    assert (passed.objects, passed.sent, passed.decisions) == ({}, carried.sent, carried.decisions)


@pytest.mark.parametrize(("document_type", "length"), [("PDF", 2_000), ("HTML", 0)], ids=["two edges", "no edge"])
def test_a_document_with_more_to_do_than_to_take_one_edge_goes_the_longer_way(handoffs, document_type, length):
    job = job_of(handoffs, request_of("inline", document_type, length))
    before = job.arrival.stream.SerializeToString(deterministic=True)

    assert job.inline_passage.pass_on(job.arrival, job.arrival.stream) is None
    assert job.arrival.stream.SerializeToString(deterministic=True) == before


def test_a_document_that_is_larger_than_its_record_may_be_is_stored(handoffs):
    request = request_of("inline")
    request.stream.document.search_metadata.body = "x" * 100_001
    job = job_of(handoffs, request)

    assert carry_job(job, handoffs._desk.store, None).objects


def test_a_document_with_a_trace_goes_the_longer_way(handoffs, monkeypatch):
    job = job_of(handoffs, request_of("inline"))
    monkeypatch.setattr(inline_passage, "is_traced", lambda _: True)

    assert job.inline_passage.pass_on(job.arrival, job.arrival.stream) is None


def test_documents_that_are_stored_have_no_shortest_way(handoffs):
    assert job_of(handoffs, request_of("stored")).inline_passage is None


@pytest.mark.parametrize("broken", ["passage", "inline_passage"])
def test_a_document_is_carried_where_passing_it_on_fails(handoffs, broken):
    job = at_noon(job_of(handoffs, request_of()))._replace(inline_passage=None)
    expected = carry_job(job._replace(passage=None, arrival=job.arrival._replace(stream=None)), None, None)

    class Broken:
        def pass_on(self, _record, stream):
            if broken == "passage":  # which changes the stream; the other one does not
                stream.Clear()
            raise ZeroDivisionError

    assert carry_job(job._replace(**{broken: Broken()}), None, None).outputs == expected.outputs


def test_a_document_whose_time_is_over_is_not_passed_on(handoffs):
    with pytest.raises(TimeBudgetSpent):
        carry_job(job_of(handoffs, request_of()), None, time.monotonic() - 1)


def test_a_document_of_another_account_is_refused_on_the_short_way_too(handoffs):
    request = request_of()
    request.stream.metadata.account_id = "other"

    with pytest.raises(RecordInvalid, match="'other'"):
        carry_job(job_of(handoffs, request), None, None)


def test_what_a_call_did_is_counted_when_it_is_answered(handoffs, slot):
    def counted():
        names = {
            "pipestream_messages_received_total": {"queue": "intake.inline", "transport": "grpc"},
            "pipestream_engine_doc_success_total": {"graph": "passing"},
        }
        return [REGISTRY.get_sample_value(name, labels) or 0 for name, labels in names.items()]

    before = counted()
    asyncio.run(handoffs.hand_off(request_of(), Caller("a")))
    many = [(request_of(), Caller(key)) for key in "bcd"]
    asyncio.run(handoffs.hand_off_many(many))

    assert len(slot.submissions) == 4
    assert [after - earlier for after, earlier in zip(counted(), before, strict=True)] == [4, 4]

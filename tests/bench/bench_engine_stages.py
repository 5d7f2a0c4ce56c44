"""Measure what one inline handoff costs between gRPC and Kafka, in CPU time by part, without any server.

The parts are measured one by one in a loop, so their sum is a little more or less than the whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from pipestream.accepted import Submission, content_digest
from pipestream.accepted.calls import Calls
from pipestream.accepted.record import Accepted, encode_accepted
from pipestream.deployment.versions import ActiveGraph
from pipestream.engine.follow import follow
from pipestream.engine.intake import Arrival, admit, take_in
from pipestream.engine.outputs import output_of
from pipestream.engine_server.calls import Caller
from pipestream.engine_server.desk import Desk
from pipestream.engine_server.doors import Doors
from pipestream.engine_server.graphs import Directory
from pipestream.engine_server.handoff import Handoffs
from pipestream.engine_server.served import ServedGraph
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import built
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.telemetry.meter import GatheringMeter
from pipestream.wire import PipeStream
from pipestream_testing.bench import sized

pytestmark = pytest.mark.slow

# Rounds so short that most are not interrupted on a busy machine; the best one counts.
ROUNDS, CALLS = sized(100, 20), 50
# Calls that share a transaction, at 256 in flight.
IN_TRANSACTION = 100

# Five conditions, of which one holds, as in bench_engine.py.
GRAPH = b"""
graph: bench
cluster: bench
datasources:
  - {id: inline, account: acme, entry: start, path: direct,
     persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
nodes:
  - {id: start, type: connector}
  - {id: one, type: connector}
  - {id: two, type: connector}
edges:
  - {from: start, to: one, id: pdf, when: 'doc.search_metadata.document_type == "PDF"'}
  - {from: start, to: two, id: large, when: 'doc.blob_bag.blob.size_bytes > 10000000'}
  - {from: start, to: two, id: secret, when: 'doc.search_metadata.source_uri.startsWith("s3://sensitive-bucket/")'}
  - {from: start, to: two, id: legal, when: '"legal" in doc.search_metadata.tags.tag_data'}
  - {from: start, to: two, id: long, when: 'doc.search_metadata.content_length > 1000000'}
"""


class ReadySlot:
    """A slot that accepts at once."""

    def find(self, _key: str, _content: bytes) -> None:
        return None

    def submit_from(self, loop: asyncio.AbstractEventLoop, submission: Submission) -> asyncio.Future[bytes]:
        done: asyncio.Future[bytes] = loop.create_future()
        loop.call_soon(done.set_result, submission.answer)
        return done

    def submit_many_from(
        self, loop: asyncio.AbstractEventLoop, submissions: Sequence[Submission]
    ) -> asyncio.Future[list[bytes]]:
        done: asyncio.Future[list[bytes]] = loop.create_future()
        loop.call_soon(done.set_result, [submission.answer for submission in submissions])
        return done


def cpu_us(call: Callable[[], object]) -> float:
    """Return the CPU time of a call: the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.process_time() - started) / CALLS * 1e6)
    return best


def request_bytes() -> bytes:
    request = IntakeHandoffRequest(datasource_id="inline")
    document = request.stream.document
    document.doc_id = "doc-1"
    document.search_metadata.title, document.search_metadata.document_type = "A report", "PDF"
    document.search_metadata.body = "".join(chr(97 + i * 7919 % 26) for i in range(2_000))
    return request.SerializeToString()


@pytest.fixture
def served(tmp_path):
    settings = Settings()
    with open_store(f"file://{tmp_path}", settings) as store:
        graph = check_graph_text(GRAPH, "bench.yaml").require()
        yield ServedGraph(ActiveGraph(1, built(graph)), settings, "here:1", store), settings, store


def test_stages_of_a_handoff(served, scenario):
    graph, settings, store = served
    doors = Doors(SimpleNamespace(directory=Directory({"bench": graph}, 1)), settings, "bench")
    data = request_bytes()
    request = IntakeHandoffRequest.FromString(data)
    (door,) = doors.choose(request).doors
    carrier = door.carrier
    record = InputRecord(door.topic, -1, -1, 0, b"doc-1", request.stream.SerializeToString(deterministic=True))
    (stream,) = take_in([Arrival(record, "origin")], carrier.entrance, store)
    conditions = carrier.services.conditions
    (emission,) = follow(stream, carrier.entrance.graph, carrier.services, settings)
    output = output_of(emission, carrier.entrance.graph).record
    answer = IntakeHandoffResponse(accepted=True, message="x" * 100, entry_node_id="start").SerializeToString()
    arriving = PipeStream.FromString(record.value)
    parts = {
        "decode the request": lambda: IntakeHandoffRequest.FromString(data),
        "serialise it for the key's digest": lambda: content_digest(request.SerializeToString(deterministic=True)),
        "choose the graphs": lambda: doors.choose(request).check(request),
        "take in: account, identity, checks": lambda: admit(arriving, carrier.entrance, "origin"),
        "pass it on, with the next line": lambda: door.passage.pass_on(record, copy_of(stream)),
        "  five conditions": lambda: conditions.matching_edges("start", conditions.activation(stream, stream.document)),
        "count it with the others of a transaction": lambda: _count(door.meter),
        "the accepted log: queue, record, window": lambda: None,
        "instead of passing it on: process the node": lambda: follow(
            stream, carrier.entrance.graph, carrier.services, settings
        ),
        "instead of passing it on: make the record": lambda: output_of(emission, carrier.entrance.graph),
    }
    rows = {name: cpu_us(call) for name, call in parts.items()}
    # It changes the stream, so each call gets a copy.
    rows["pass it on, with the next line"] -= cpu_us(lambda: copy_of(stream))
    rows["count it with the others of a transaction"] /= IN_TRANSACTION
    rows["the accepted log: queue, record, window"] = _accepted_us(settings, [output], answer)
    rows["whole handoff, one by one"], rows["whole handoff, in batches of 50"] = asyncio.run(
        _whole(Desk(settings, _slots(), store), doors, data)
    )
    made = scenario("engine-stages", "The parts of an inline handoff between gRPC and Kafka, without any server")
    for name, microseconds in rows.items():
        made.add(name.strip(), "µs of CPU a call", microseconds)


def copy_of(stream: PipeStream) -> PipeStream:
    copy = PipeStream()
    copy.CopyFrom(stream)
    return copy


def _count(meter: GatheringMeter) -> None:
    for _ in range(IN_TRANSACTION):
        meter.received("intake.inline", "grpc", [2_000])
        meter.processed("pipestream.bench.start", "success", [0.0001])
        meter.sent("pipestream.bench.one", "routing", "pdf", [2_000])
        meter.ended(succeeded=True)
    meter.flush()


def _slots() -> SimpleNamespace:
    slot = ReadySlot()
    return SimpleNamespace(for_key=lambda _: slot, any=lambda: slot)


def _accepted_us(settings: Settings, outputs, answer: bytes) -> float:
    """Return what a slot does for a call besides the producer's work, in transactions of 250."""
    calls = Calls(settings, 0)
    calls.open()
    best = float("inf")
    loop = asyncio.new_event_loop()
    for turn in range(ROUNDS // 4):
        submissions = [Submission(outputs, answer, f"key-{turn}-{number}", bytes(16)) for number in range(250)]
        started = time.process_time()
        for submission in submissions:
            calls.take(submission, loop.create_future())
        batch = calls.settle_known(calls.next_batch(1_000, 8_000_000))
        accepted = [Accepted(call.digest, call.content, call.submission.answer, True, 0) for call in batch]
        encode_accepted(accepted, 0)
        calls.settle(batch, {each.digest: each for each in accepted})
        best = min(best, (time.process_time() - started) / len(submissions) * 1e6)
    loop.close()
    return best


async def _whole(desk: Desk, doors: Doors, data: bytes) -> tuple[float, float]:
    handoffs = Handoffs(desk, doors)
    single = batched = float("inf")
    for turn in range(ROUNDS):
        started = time.process_time()
        for number in range(CALLS):
            await handoffs.hand_off(IntakeHandoffRequest.FromString(data), Caller(f"s-{turn}-{number}"))
        single = min(single, (time.process_time() - started) / CALLS * 1e6)
        started = time.process_time()
        many = [(IntakeHandoffRequest.FromString(data), Caller(f"b-{turn}-{number}")) for number in range(CALLS)]
        await handoffs.hand_off_many(many)
        batched = min(batched, (time.process_time() - started) / CALLS * 1e6)
    desk.close()
    return single, batched

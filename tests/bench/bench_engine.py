"""Measure the engine against an empty grpc.aio echo of the same payload, one process each, in one run.

A call's documents are committed to Kafka when it is answered. The client runs on the same machine and costs as much as
a server. So the rates depend on what else runs; what a call costs the server in CPU time does not, and it is what one
core can do. Targets, of the echo's rate at 256 in flight: 55 % inline, 25 % with objects of 10 KB; p50 under 10 ms at
16 (inline); the stream at 1.5 times the unary rate, the batch form at 4 times per core.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc.aio
import psutil
import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import (
    IntakeHandoffRequest,
    IntakeHandoffResponse,
    IntakeHandoffStreamRequest,
    IntakeHandoffStreamResponse,
)
from pipestream.gen.pipestream.live.v1.handoff_service_pb2 import HandoffBatchRequest, HandoffBatchResponse
from pipestream.graph.load import check_graph_text
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.rpc.server import run_loop
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream_testing.echo_server import METHOD as ECHO
from pipestream_testing.engine_processes import HANDOFF, EngineProcess

pytestmark = [pytest.mark.slow, pytest.mark.stack]

ROUND_S = float(os.environ.get("BENCH_SECONDS", "4"))
IN_FLIGHT = tuple(int(each) for each in os.environ.get("BENCH_IN_FLIGHT", "1 16 256").split())
CONNECTIONS = 4
BATCH = 50
STREAM = "/ai.pipestream.engine.v1.EngineV1Service/IntakeHandoffStream"
BATCHES = "/pipestream.live.v1.HandoffService/HandoffBatch"

# Five conditions, of which one holds.
GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources:
  - {id: UNIQUE-inline, account: acme, entry: start, path: direct,
     persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
  - {id: UNIQUE-object, account: acme, entry: start, path: direct}
nodes:
  - {id: start, type: connector}
  - {id: one, type: connector, partitions: 4}
  - {id: two, type: connector}
  - {id: three, type: connector}
  - {id: four, type: connector}
  - {id: five, type: connector}
edges:
  - {from: start, to: one, when: 'doc.search_metadata.document_type == "PDF"'}
  - {from: start, to: two, when: 'doc.blob_bag.blob.size_bytes > 10000000'}
  - {from: start, to: three, when: 'doc.search_metadata.source_uri.startsWith("s3://sensitive-bucket/")'}
  - {from: start, to: four, when: '"legal" in doc.search_metadata.tags.tag_data'}
  - {from: start, to: five, when: 'doc.search_metadata.content_length > 1000000'}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table."""

    what: str
    in_flight: int
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Of the server, per document."""


Call = Callable[[int], Awaitable[int]]
"""Make the nth call, and return how many documents it carried."""


async def measure(what: str, in_flight: int, server: int, call: Call) -> Measured:
    numbers, times, documents = itertools.count(), [], 0
    stop_at = float("inf")

    async def work() -> None:
        nonlocal documents
        while (started := time.perf_counter()) < stop_at:
            carried = await call(next(numbers))
            documents += carried
            times.append(time.perf_counter() - started)

    workers = [asyncio.create_task(work()) for _ in range(in_flight)]
    await asyncio.sleep(ROUND_S / 4)  # warm
    times.clear()
    documents, cpu, started = 0, _cpu_s(server), time.perf_counter()
    await asyncio.sleep(ROUND_S)
    took, counted, used, ended = time.perf_counter() - started, documents, _cpu_s(server) - cpu, sorted(times)
    stop_at = 0.0
    await asyncio.gather(*workers)
    p50, p99 = (ended[int(len(ended) * share)] * 1_000 for share in (0.5, 0.99))
    return Measured(what, in_flight, counted / took, p50, p99, used / counted * 1e6)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children."""
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


class Clients:
    """Calls of one server, over several connections."""

    def __init__(self, address: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CONNECTIONS)]

    def unary(self, method: str, payload: bytes, expect: str = "") -> Call:
        calls = [channel.unary_unary(method) for channel in self._channels]
        own = os.urandom(4).hex()

        async def call(number: int) -> int:
            answer = await calls[number % CONNECTIONS](payload, metadata=((IDEMPOTENCY_KEY, f"{own}-{number}"),))
            assert not expect or IntakeHandoffResponse.FromString(answer).accepted
            return 1

        return call

    def batch(self, request: IntakeHandoffRequest) -> Call:
        calls = [channel.unary_unary(BATCHES) for channel in self._channels]
        own = os.urandom(4).hex()

        async def call(number: int) -> int:
            batch = HandoffBatchRequest()
            for index in range(BATCH):
                batch.handoffs.add(key=f"{own}-{number}-{index}", request=request)
            answer = HandoffBatchResponse.FromString(await calls[number % CONNECTIONS](batch.SerializeToString()))
            assert all(each.response.accepted for each in answer.answers)
            return BATCH

        return call

    def stream(self, request: IntakeHandoffRequest) -> Call:
        """Send documents over one stream per connection. Its answers come in any order, so each waits for its own."""
        own = os.urandom(4).hex()
        streams = [_Stream(channel, request, own) for channel in self._channels]

        async def call(number: int) -> int:
            await streams[number % CONNECTIONS].send(number)
            return 1

        return call

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


class _Stream:
    def __init__(self, channel: grpc.aio.Channel, request: IntakeHandoffRequest, own: str) -> None:
        self._call = channel.stream_stream(STREAM)()
        self._request = IntakeHandoffStreamRequest(request=request)
        self._own = own
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._writing = asyncio.Lock()
        self._reading = asyncio.create_task(self._read())

    async def send(self, number: int) -> None:
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._request.sequence = number
        self._request.request.stream.stream_id = f"{self._own}-{number}"
        message = self._request.SerializeToString()
        async with self._writing:
            await self._call.write(message)
        await done

    async def _read(self) -> None:
        async for message in self._call:
            answer = IntakeHandoffStreamResponse.FromString(message)
            assert answer.status == IntakeHandoffStreamResponse.STATUS_ACCEPTED, answer
            self._waiting.pop(answer.sequence).set_result(None)


def request_of(datasource_id: str, size_bytes: int) -> IntakeHandoffRequest:
    request = IntakeHandoffRequest(datasource_id=datasource_id)
    document = request.stream.document
    document.doc_id = "doc-1"
    document.search_metadata.title, document.search_metadata.document_type = "A report", "PDF"
    document.search_metadata.body = "".join(chr(97 + i * 7919 % 26) for i in range(size_bytes))
    return request


@pytest.fixture
def echo_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "pipestream_testing.echo_server", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield f"127.0.0.1:{port}", process.pid
        process.kill()


@pytest.fixture
def engine_server(settings, unique, tmp_path):
    graph = check_graph_text(GRAPH.replace("UNIQUE", unique).encode(), "bench.yaml").require()
    TopicAdmin(settings).create(required_topics(graph, settings))
    versions = GraphVersions(settings)
    versions.save(graph, applied_by="bench")
    versions.close()
    engine = EngineProcess(settings.model_copy(update={"engine_name": unique}), tmp_path, workers=1)
    engine.start()
    engine.wait_ready()
    yield engine
    assert engine.stop() == 0, engine.log


def test_engine_against_an_echo(echo_server, engine_server, unique):
    inline, large = request_of(f"{unique}-inline", 2_000), request_of(f"{unique}-object", 10_000)

    async def run() -> list[Measured]:
        echo, engine = Clients(echo_server[0]), Clients(engine_server.address)
        served = engine_server.pid
        unary = [
            ("echo 2 KB", echo_server[1], echo.unary(ECHO, inline.SerializeToString())),
            ("inline 2 KB", served, engine.unary(HANDOFF, inline.SerializeToString(), "accepted")),
            ("echo 10 KB", echo_server[1], echo.unary(ECHO, large.SerializeToString())),
            ("object 10 KB", served, engine.unary(HANDOFF, large.SerializeToString(), "accepted")),
        ]
        # What is compared is measured one right after the other: the load of the machine changes.
        rows = [await measure(what, at_once, pid, call) for at_once in IN_FLIGHT for what, pid, call in unary]
        rows.append(await measure("stream, inline", 256, served, engine.stream(inline)))
        rows.append(await measure(f"batches of {BATCH}, inline", 8, served, engine.batch(inline)))
        await echo.close()
        await engine.close()
        return rows

    rows = run_loop(run())
    report(rows)


def report(rows: list[Measured]) -> None:
    by_name = {(row.what, row.in_flight): row for row in rows}
    print(f"\nload of the machine: {os.getloadavg()}")
    print(
        f"{'what':24} {'in flight':>9} {'per s':>8} {'p50 ms':>8} {'p99 ms':>8} {'CPU µs':>8}  of the echo (rate, CPU)"
    )
    for row in rows:
        size = "10 KB" if "10 KB" in row.what else "2 KB"
        echo = by_name.get((f"echo {size}", row.in_flight), by_name[f"echo {size}", 256])
        share = f"{row.per_s / echo.per_s:6.0%} {echo.cpu_us / row.cpu_us:6.0%}"
        print(
            f"{row.what:24} {row.in_flight:9} {row.per_s:8.0f} {row.p50_ms:8.2f} {row.p99_ms:8.2f} {row.cpu_us:8.0f}"
            f"  {share}"
        )
    unary = by_name["inline 2 KB", 256]
    for row in rows[-2:]:
        print(
            f"{row.what}: {row.per_s / unary.per_s:.2f} times the unary rate, "
            f"{unary.cpu_us / row.cpu_us:.2f} times per core"
        )

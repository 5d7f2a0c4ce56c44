"""Measure the engine against an empty grpc.aio echo of the same payload, one process each, in one run.

A call's documents are committed to Kafka when it is answered. The client runs on the same machine and costs as much as
a server. So the rates depend on what else runs; what a call costs the server in CPU time does not, and it is what one
core can do. Targets, of the echo's rate at 256 in flight: 55 % inline, 25 % with objects of 10 KB; p50 under 10 ms at
16 (inline); the stream at 1.5 times the unary rate, the batch form at 4 times per core.

A second empty server shows how much of a call's time is the transaction: it commits a record for each call, and does
nothing else (``bare_transactions.py``).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.rpc.server import run_loop
from pipestream_testing.bare_transactions import METHOD as BARE
from pipestream_testing.bench import sized
from pipestream_testing.courses import FIVE_CONDITIONS, INLINE, make_pipeline, make_topic, read_keys
from pipestream_testing.echo_server import METHOD as ECHO
from pipestream_testing.engine_processes import HANDOFF, EngineProcess

pytestmark = [pytest.mark.slow, pytest.mark.stack]

ROUND_S = float(os.environ.get("BENCH_SECONDS", sized("4", "0.8")))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", sized("3", "2")))
CONNECTIONS = 4
FEWEST_CALLS = 10
# Of calls, over all rounds: they are keys, and a repeated key gets the first answer without any work.
NUMBERS = itertools.count()
BATCH = 50
STREAM = "/ai.pipestream.engine.v1.EngineV1Service/IntakeHandoffStream"
BATCHES = "/pipestream.live.v1.HandoffService/HandoffBatch"

GRAPH = f"""
graph: NAME
cluster: NAME
datasources:
  - {{id: NAME-inline, account: acme, entry: start, path: direct, {INLINE}}}
  - {{id: NAME-object, account: acme, entry: start, path: direct}}
nodes:
  - {{id: start, type: connector}}{FIVE_CONDITIONS}"""


@dataclass(frozen=True, slots=True)
class Round:
    """What one kind of call did in one round."""

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Of the server, per document."""


Call = Callable[[int], Awaitable[int]]
"""Make the nth call, and return how many documents it carried."""


async def measure(in_flight: int, server: int, call: Call) -> Round:
    times, documents = [], 0
    stop_at = float("inf")

    async def work() -> None:
        nonlocal documents
        while (started := time.perf_counter()) < stop_at:
            carried = await call(next(NUMBERS))
            documents += carried
            times.append(time.perf_counter() - started)

    workers = [asyncio.create_task(work()) for _ in range(in_flight)]
    await _wait(ROUND_S / 4, times)  # warm
    times.clear()
    documents, cpu, started = 0, _cpu_s(server), time.perf_counter()
    await _wait(ROUND_S, times)
    took, counted, used, ended = time.perf_counter() - started, documents, _cpu_s(server) - cpu, sorted(times)
    stop_at = 0.0
    await asyncio.gather(*workers)
    p50, p99 = (ended[int(len(ended) * share)] * 1_000 for share in (0.5, 0.99))
    return Round(counted / took, p50, p99, used / counted * 1e6)


async def _wait(seconds: float, calls: list[float]) -> None:
    """Wait so long, and on a busy machine until some calls have ended."""
    await asyncio.sleep(seconds)
    while len(calls) < FEWEST_CALLS:
        await asyncio.sleep(0.05)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children."""
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


class Clients:
    """Calls of one server, over several connections."""

    def __init__(self, address: str) -> None:
        self.documents = 0
        """How many were handed over in all."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.aio.insecure_channel(address, options=options) for _ in range(CONNECTIONS)]

    def unary(self, method: str, payload: bytes, *, expect: bool = False) -> Call:
        calls = [channel.unary_unary(method) for channel in self._channels]
        own = os.urandom(4).hex()

        async def call(number: int) -> int:
            answer = await calls[number % CONNECTIONS](payload, metadata=((IDEMPOTENCY_KEY, f"{own}-{number}"),))
            if expect:
                assert IntakeHandoffResponse.FromString(answer).accepted
                self.documents += 1
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
            self.documents += BATCH
            return BATCH

        return call

    def stream(self, request: IntakeHandoffRequest) -> Call:
        """Send documents over one stream per connection. Its answers come in any order, so each waits for its own."""
        own = os.urandom(4).hex()
        streams = [_Stream(channel, request, own) for channel in self._channels]

        async def call(number: int) -> int:
            await streams[number % CONNECTIONS].send(number)
            self.documents += 1
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


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[tuple[str, int]]:
    """Run a server of ``pipestream_testing``; yield its address and its process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", f"pipestream_testing.{module}", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield f"127.0.0.1:{port}", process.pid
        process.kill()


@pytest.fixture
def echo_server():
    with serving("echo_server") as server:
        yield server


@pytest.fixture
def bare_server(settings, unique):
    with serving("bare_transactions", settings.kafka_bootstrap, make_topic(settings, f"bare.{unique}", 2)) as server:
        yield server


@pytest.fixture
def engine_server(settings, unique, tmp_path):
    pipeline = make_pipeline(settings, tmp_path, unique, GRAPH)
    versions = GraphVersions(settings)
    versions.save(pipeline.graph, applied_by="bench")
    versions.close()
    engine = EngineProcess(settings.model_copy(update={"engine_name": unique}), tmp_path, workers=1)
    engine.start()
    engine.wait_ready()
    yield engine
    assert engine.stop() == 0, engine.log


async def measure_all(
    echo_server, bare_server, engine_server, unique
) -> tuple[dict[tuple[str, int], list[Round]], int]:
    """Return the rounds of every kind of call by its name and calls in flight, and how many documents were accepted."""
    inline, large = request_of(f"{unique}-inline", 2_000), request_of(f"{unique}-object", 10_000)
    echo, bare, engine = Clients(echo_server[0]), Clients(bare_server[0]), Clients(engine_server.address)
    small_echo = (echo_server[1], echo.unary(ECHO, inline.SerializeToString()))
    large_echo = (echo_server[1], echo.unary(ECHO, large.SerializeToString()))
    transaction = (bare_server[1], bare.unary(BARE, inline.SerializeToString()))
    handoff = (engine_server.pid, engine.unary(HANDOFF, inline.SerializeToString(), expect=True))
    with_object = (engine_server.pid, engine.unary(HANDOFF, large.SerializeToString(), expect=True))
    # What is compared is measured one right after the other: the load of the machine changes.
    kinds = {
        ("echo, 2 KB", 256): small_echo,
        ("inline, 2 KB", 256): handoff,
        ("stream, inline", 256): (engine_server.pid, engine.stream(inline)),
        (f"batches of {BATCH}, inline", 8): (engine_server.pid, engine.batch(inline)),
        ("echo, 10 KB", 256): large_echo,
        ("object of 10 KB", 256): with_object,
        ("echo, 2 KB", 16): small_echo,
        ("transaction alone, 2 KB", 16): transaction,
        ("inline, 2 KB", 16): handoff,
        ("object of 10 KB", 16): with_object,
        ("inline, 2 KB", 1): handoff,
    }
    taken: dict[tuple[str, int], list[Round]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for (what, in_flight), (server, call) in kinds.items():
            taken[what, in_flight].append(await measure(in_flight, server, call))
    for clients in (echo, bare, engine):
        await clients.close()
    return taken, engine.documents


def test_engine_against_an_echo(echo_server, bare_server, engine_server, settings, unique, scenario):
    taken, accepted = run_loop(measure_all(echo_server, bare_server, engine_server, unique))
    published = sum(map(len, read_keys(settings, f"pipestream.{unique}.one").values()))
    assert published == accepted, f"{accepted} documents were accepted, {published} published"
    rates = scenario("engine", "Handoffs to the engine, one process, against an empty gRPC echo; in flight")
    for (what, in_flight), rounds in taken.items():
        if in_flight in (8, 256):
            is_rival = what.startswith("echo")
            rates.add(what, "documents/s", *(each.per_s for each in rounds), is_rival=is_rival)
            rates.add(what, "µs of CPU a document", *(each.cpu_us for each in rounds), is_rival=is_rival)
    per_core = "µs of CPU a document"
    rates.want_ratio("of the echo, inline", "inline, 2 KB", "echo, 2 KB", at_least=0.55)
    rates.want_ratio("of the echo, objects of 10 KB", "object of 10 KB", "echo, 10 KB", at_least=0.25)
    rates.want_ratio("times unary calls, stream", "stream, inline", "inline, 2 KB", at_least=1.5)
    batch = f"batches of {BATCH}, inline"
    rates.want_ratio("times unary calls, batches", batch, "inline, 2 KB", at_least=4)
    cheaper = rates.median("inline, 2 KB", per_core) / rates.median(batch, per_core)
    rates.note(f"a document of a batch takes the engine's CPU {cheaper:.1f} times less than one of a unary call")
    waits = scenario("engine-latency", "How long a handoff takes until its documents are committed, p50")
    for (what, in_flight), rounds in taken.items():
        label = f"{what}, {in_flight} in flight"
        is_rival = what.startswith(("echo", "transaction"))
        waits.add(label, "ms", *(each.p50_ms for each in rounds), is_rival=is_rival)
    waits.want_of("ms, inline, 16 in flight", "inline, 2 KB, 16 in flight", at_most=10)
    for in_flight in (1, 16, 256):
        p99 = max(each.p99_ms for each in taken["inline, 2 KB", in_flight])
        waits.note(f"p99, inline, {in_flight} in flight: {p99:.0f} ms")

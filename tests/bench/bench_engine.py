"""Measure the engine against an empty grpc.aio echo of the same payload, one process each, in one run.

A call's documents are committed to Kafka when it is answered. The client is a Go program (``handoff_load``): one in
Python costs as much as a server, and both share the machine. The rates still depend on what else runs; what a call
costs the server in CPU time does not, and it is what one core can do. Targets, of the echo's rate at 256 in flight:
55 % inline, 25 % with objects of 10 KB; p50 under 10 ms at 16 (inline); the stream at 1.5 times the unary rate, the
batch form at 4 times per core.

A second empty server shows how much of a call's time is the transaction: it commits a record for each call, and does
nothing else (``bare_transactions.py``).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pipestream.deployment.versions import GraphVersions
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest
from pipestream_testing.bare_transactions import METHOD as BARE
from pipestream_testing.bench import sized
from pipestream_testing.courses import FIVE_CONDITIONS, INLINE, make_pipeline, make_topic, read_keys
from pipestream_testing.echo_server import METHOD as ECHO
from pipestream_testing.engine_processes import HANDOFF, EngineProcess
from pipestream_testing.go_program import build_go

pytestmark = [pytest.mark.slow, pytest.mark.stack]

ROUND_S = float(os.environ.get("BENCH_SECONDS", sized("4", "0.8")))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", sized("3", "2")))
BATCH = 50
STREAM = "/ai.pipestream.engine.v1.EngineV1Service/IntakeHandoffStream"
BATCHES = "/pipestream.live.v1.HandoffService/HandoffBatch"
LOAD = Path(__file__).parent / "handoff_load"
CONDITIONS_OF_START = FIVE_CONDITIONS.partition("edges:")[2].strip("\n")

GRAPH = f"""
graph: NAME
cluster: NAME
datasources:
  - {{id: NAME-inline, account: acme, entry: start, path: direct, {INLINE}}}
  - {{id: NAME-object, account: acme, entry: start, path: direct}}
  - {{id: NAME-segment, account: acme, entry: pack, path: direct}}
nodes:
  - {{id: pack, type: connector, storage: segments}}
  - {{id: start, type: connector}}{FIVE_CONDITIONS}
{CONDITIONS_OF_START.replace("from: start", "from: pack")}"""


@dataclass(frozen=True, slots=True)
class Round:
    """What one kind of call did in one round."""

    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """Of the server, per document."""


@dataclass(frozen=True, slots=True)
class Calls:
    """One kind of call of one server."""

    server: tuple[str, int]
    """Its address and its process id."""
    kind: str
    """How ``handoff_load`` makes the call, and what it expects as an answer."""
    method: str
    payload: bytes


class Client:
    """The Go program that makes the calls."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.accepted = 0
        """How many documents engines have taken in all."""

    def measure(self, calls: Calls, in_flight: int) -> Round:
        address, pid = calls.server
        # A new key for every document: one that is repeated gets the first answer without any work.
        options = {"address": address, "method": calls.method, "kind": calls.kind, "own": os.urandom(4).hex()}
        options |= {"in-flight": str(in_flight), "batch": str(BATCH), "seconds": str(ROUND_S)}
        command = [self._program, *(f"-{name}={value}" for name, value in options.items())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(calls.payload)
            process.stdin.close()
            assert process.stdout.readline() == b"measuring\n"
            before = _cpu_s(pid)
            assert process.stdout.readline() == b"measured\n"
            used = _cpu_s(pid) - before
            found = json.loads(process.stdout.read())
        assert process.returncode == 0
        if calls.method in (HANDOFF, STREAM, BATCHES):
            self.accepted += found["all"]
        documents = found["documents"]
        return Round(documents / found["seconds"], found["p50_ms"], found["p99_ms"], used / documents * 1e6)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children."""
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True)))


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


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return Client(build_go(LOAD, tmp_path_factory.mktemp("go")))


def measure_all(
    client: Client, echo: tuple[str, int], bare: tuple[str, int], engine: tuple[str, int], unique: str
) -> dict[tuple[str, int], list[Round]]:
    """Return the rounds of every kind of call by its name and calls in flight."""
    inline = request_of(f"{unique}-inline", 2_000).SerializeToString()
    large = request_of(f"{unique}-object", 10_000).SerializeToString()
    packed = request_of(f"{unique}-segment", 10_000).SerializeToString()
    small_echo = Calls(echo, "echo", ECHO, inline)
    handoff = Calls(engine, "unary", HANDOFF, inline)
    with_object = Calls(engine, "unary", HANDOFF, large)
    # What is compared is measured one right after the other: the load of the machine changes.
    kinds = {
        ("echo, 2 KB", 256): small_echo,
        ("inline, 2 KB", 256): handoff,
        ("stream, inline", 256): Calls(engine, "stream", STREAM, inline),
        (f"batches of {BATCH}, inline", 8): Calls(engine, "batch", BATCHES, inline),
        ("echo, 10 KB", 256): Calls(echo, "echo", ECHO, large),
        ("object of 10 KB", 256): with_object,
        ("segments, 10 KB", 256): Calls(engine, "unary", HANDOFF, packed),
        ("echo, 2 KB", 16): small_echo,
        ("transaction alone, 2 KB", 16): Calls(bare, "echo", BARE, inline),
        ("inline, 2 KB", 16): handoff,
        ("object of 10 KB", 16): with_object,
        ("inline, 2 KB", 1): handoff,
    }
    taken: dict[tuple[str, int], list[Round]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for (what, in_flight), calls in kinds.items():
            taken[what, in_flight].append(client.measure(calls, in_flight))
    return taken


def test_engine_against_an_echo(client, echo_server, bare_server, engine_server, settings, unique, scenario):
    engine = (engine_server.address, engine_server.pid)
    taken = measure_all(client, echo_server, bare_server, engine, unique)
    published = sum(map(len, read_keys(settings, f"pipestream.{unique}.one").values()))
    assert published == client.accepted, f"{client.accepted} documents were accepted, {published} published"
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
    packed = rates.median("segments, 10 KB", "documents/s") / rates.median("echo, 10 KB", "documents/s")
    rates.note(f"with `storage: segments`, documents of 10 KB reach {packed:.2f} of the echo")
    waits = scenario("engine-latency", "How long a handoff takes until its documents are committed, p50")
    for (what, in_flight), rounds in taken.items():
        label = f"{what}, {in_flight} in flight"
        is_rival = what.startswith(("echo", "transaction"))
        waits.add(label, "ms", *(each.p50_ms for each in rounds), is_rival=is_rival)
    waits.want_of("ms, inline, 16 in flight", "inline, 2 KB, 16 in flight", at_most=10)
    for in_flight in (1, 16, 256):
        p99 = max(each.p99_ms for each in taken["inline, 2 KB", in_flight])
        waits.note(f"p99, inline, {in_flight} in flight: {p99:.0f} ms")

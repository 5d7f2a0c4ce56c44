"""An engine and a Repository under valid and fuzzed requests: documented answers alone, and memory that stays flat."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import grpc.aio
import httpx
import pytest

from pipestream.gen.ai.pipestream.engine.v1 import engine_service_pb2 as pb
from pipestream.gen.pipestream.live.v1.handoff_service_pb2 import HandoffBatchRequest
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream_testing.engine_processes import EngineProcess
from pipestream_testing.memory import QUIET, MemoryWatch
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.repository_process import RepositoryProcess, apply_graph

pytestmark = pytest.mark.stack

MOST_BYTES_PER_CALL = 900
"""What a server may grow by with a call: the allocator moves in steps. One that keeps 1 KB of every call is over it."""
LOAD_S = float(os.environ.get("LOAD_SECONDS", "3600"))
AT_ONCE = 16
# Keys that the engine remembers: as few as it can be set to, so that their number is reached soon.
KEYS = 1_000

ENGINE = "/ai.pipestream.engine.v1.EngineV1Service/"
BATCH = "/pipestream.live.v1.HandoffService/HandoffBatch"
REPOSITORY = "/ai.pipestream.repository.pipedoc.v1.PipeDocService/"
DOCUMENTED = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED"}
# As busy as the test makes a server, it may also be late, or lose a lease for a moment.
DOCUMENTED |= {"UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED", "UNIMPLEMENTED"}
CUT_OFF = "cut off"
"""It was refused, and the rest not read. That the server is still there is checked at the end."""
HTTP_DOCUMENTED = {200, 201, 207, 400, 401, 404, 405, 408, 413, 415, 422, 503}

GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources:
  - {id: UNIQUE, account: acme, entry: first, path: direct,
     persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
nodes: [{id: first, type: connector}, {id: second, type: connector}]
edges: [{from: first, to: second, when: 'doc.search_metadata.title != "odd"'}]
"""

Call = Callable[[], Awaitable[str]]
"""Make one call, and return the name of its status."""


@dataclass(slots=True)
class Load:
    """Calls of one server, several at once."""

    watch: MemoryWatch
    draw: Callable[[], Call]
    seen: set[str] = field(default_factory=set)
    calls: int = 0

    async def run(self, calls: int) -> None:
        """Make so many calls, then look at the server's memory."""
        numbers = iter(range(calls))

        async def work() -> None:
            for _ in numbers:
                self.seen.add(await self.draw()())

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        self.calls += calls
        self.watch.look(self.calls)


class EngineCalls:
    """Draws calls of an engine: valid ones, repeats, wrong ones, and bytes that are changed at random."""

    def __init__(self, channel: grpc.aio.Channel, datasource_id: str, seed: int) -> None:
        self._channel = channel
        self._chance = random.Random(seed)
        self._number = 0
        request = pb.IntakeHandoffRequest(datasource_id=datasource_id)
        request.stream.document.doc_id = "doc-1"
        request.stream.document.search_metadata.body = "x" * 2_000
        node = pb.ProcessNodeRequest(stream=request.stream)
        node.stream.stream_id, node.stream.current_node_id = "s-1", "first"
        node.stream.metadata.account_id, node.stream.metadata.graph_id = "acme", datasource_id
        batch = HandoffBatchRequest()
        for _ in range(3):
            batch.handoffs.add(request=request)
        route = pb.RouteToClusterRequest(stream=node.stream, target_cluster_id="far", target_node_id="away")
        self._valid = {
            f"{ENGINE}IntakeHandoff": request.SerializeToString(),
            f"{ENGINE}ProcessNode": node.SerializeToString(),
            BATCH: batch.SerializeToString(),
            f"{ENGINE}RouteToCluster": route.SerializeToString(),
            f"{ENGINE}GetHealth": b"",
            f"{ENGINE}NoSuchMethod": b"",
        }

    def draw(self) -> Call:
        chance = self._chance
        method = chance.choice(list(self._valid))
        data = self._valid[method]
        if chance.random() < 0.4:
            data = mutated(data, chance)
        self._number += 1
        key = f"key-{chance.choice([self._number, self._number, 0])}"
        metadata = ((IDEMPOTENCY_KEY, key),) if chance.random() < 0.8 else ()
        send = self._channel.unary_unary(method)
        return lambda: status_of(send(data, metadata=metadata, timeout=120))


class RepositoryCalls:
    """The same for a Repository, by gRPC and by HTTP."""

    def __init__(self, channel: grpc.aio.Channel, client: httpx.AsyncClient, datasource_id: str, seed: int) -> None:
        self._channel = channel
        self._client = client
        self._chance = random.Random(seed)
        self._source = datasource_id

    def draw(self) -> Call:
        chance = self._chance
        if chance.random() < 0.5:
            method = chance.choice(["SavePipeDoc", "GetPipeDoc", "DeletePipeDoc", "ListPipeDocs", "GetBlob", "Nothing"])
            send = self._channel.unary_unary(f"{REPOSITORY}{method}")
            data = chance.randbytes(chance.randrange(60))
            return lambda: status_of(send(data, timeout=120))
        path = chance.choice([f"/uploads/{self._source}"] * 3 + [f"/webhooks/{self._source}", "/uploads/%00", "/no"])
        headers = {"Content-Type": chance.choice(["text/plain", ";;", "multipart/form-data; boundary=b", "a/b"])}
        # Few different documents: the catalogue keeps each of them.
        headers["X-Document-Id"] = f"doc-{chance.randrange(20)}"
        body = chance.choice([b"", b"--b\r\n", b"text"]) + bytes(chance.choice([0, 50, 5_000]))

        async def post() -> str:
            try:
                return str((await self._client.post(path, content=body, headers=headers)).status_code)
            except (httpx.ReadError, httpx.WriteError):
                return CUT_OFF

        return post


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes of which some are changed or cut off."""
    changed = bytearray(data) or bytearray(chance.randbytes(20))
    for _ in range(chance.randrange(1, 5)):
        changed[chance.randrange(min(len(changed), 120))] = chance.randrange(256)
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.3 else changed)


async def status_of(call: Awaitable[bytes]) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.fixture
def served(settings, unique, tmp_path):
    file = tmp_path / "graph.yaml"
    file.write_text(GRAPH.replace("UNIQUE", unique))
    own = settings.model_copy(update={"engine_name": unique, "engine_window_keys": KEYS})
    pipeline = Pipeline(own, file)
    pipeline.create_topics()
    apply_graph(pipeline)
    return pipeline


@pytest.fixture
def engine(served, tmp_path):
    process = EngineProcess(served.settings, tmp_path, workers=1)
    process.start(QUIET)
    yield process
    assert process.stop() == 0, process.log
    assert "unexpected error" not in process.log


@pytest.fixture
def repository(served, tmp_path):
    with RepositoryProcess(served, tmp_path / "repository", environment=QUIET) as process:
        yield process
        assert process.is_running()
        assert "unexpected error" not in process.log_file.read_text()


async def load_both(engine, repository, unique, warm_up: int, calls: int, until: Callable[[int], bool]) -> list[Load]:
    """Load both servers in rounds of so many calls, after a warm-up, until there are enough rounds."""
    async with (
        grpc.aio.insecure_channel(engine.address) as first,
        grpc.aio.insecure_channel(repository.grpc) as second,
        httpx.AsyncClient(base_url=repository.http, timeout=120) as client,
    ):
        loads = [
            Load(MemoryWatch(engine.pid), EngineCalls(first, unique, seed=1).draw),
            Load(MemoryWatch(repository.pid), RepositoryCalls(second, client, unique, seed=2).draw),
        ]
        rounds = 0
        for load in loads:
            await load.run(warm_up)
            load.watch.samples.clear()
        while not until(rounds):
            for load in loads:
                await load.run(calls)
            rounds += 1
    return loads


def check(loads: list[Load]) -> None:
    of_engine, of_repository = loads
    assert {"OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED"} <= of_engine.seen <= DOCUMENTED
    statuses = {status for status in of_repository.seen if not status.isdigit()} - {CUT_OFF}
    codes = {int(status) for status in of_repository.seen if status.isdigit()}
    assert {"INVALID_ARGUMENT", "UNIMPLEMENTED"} <= statuses <= DOCUMENTED
    assert {201, 404, 422} <= codes <= HTTP_DOCUMENTED
    for load in loads:
        grown = load.watch.bytes_per_call()
        assert grown < MOST_BYTES_PER_CALL, f"{grown:.0f} bytes more with every call: {load.watch.samples}"


def test_fuzzed_load_gets_documented_answers_and_leaves_no_memory_behind(engine, repository, unique):
    engine.wait_ready()

    loads = asyncio.run(load_both(engine, repository, unique, 1_000, 250, lambda rounds: rounds == 8))

    check(loads)


@pytest.mark.slow
@pytest.mark.timeout(LOAD_S * 2 + 600)
def test_memory_is_flat_over_an_hour_of_load(engine, repository, unique):
    engine.wait_ready()
    end = time.monotonic() + LOAD_S

    loads = asyncio.run(load_both(engine, repository, unique, 5_000, 5_000, lambda _: time.monotonic() > end))

    check(loads)

"""Kill the engine under 64 callers that repeat their calls with keys: every document arrives exactly once."""

from __future__ import annotations

import threading
import time

import grpc
import pytest

from pipestream import faults
from pipestream.deployment.versions import GraphVersions
from pipestream.documents.references import place_of
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2_grpc import EngineV1ServiceStub
from pipestream.modules.remote import IDEMPOTENCY_KEY
from pipestream.objects.store import open_store
from pipestream_testing.engine_processes import EngineProcess, PersistentClients, documents_of
from pipestream_testing.length import by_length
from pipestream_testing.oracle import judge
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

DOCUMENTS = by_length(1_000, 10_000)
AT_ONCE = 64
KILLS = by_length(2, 8)
# The leases of an engine that was killed whole have to run out before the next one has its slots.
LEASE_TTL_S = 5.0


@pytest.fixture(params=["objects"])
def engine_pipeline(make_pipeline, unique, request):
    """A pipeline whose graph is applied. The parameter is how its first node stores documents."""
    storage = ("  - id: first\n", f"  - id: first\n    storage: {request.param}\n")
    pipeline = make_pipeline(storage, engine_name=unique, lease_ttl_s=LEASE_TTL_S, engine_slots=2)
    versions = GraphVersions(pipeline.settings)
    versions.save(pipeline.graph, applied_by="test")
    versions.close()
    return pipeline


@pytest.fixture
def engine(engine_pipeline, tmp_path):
    process = EngineProcess(engine_pipeline.settings, tmp_path, workers=2)
    yield process
    process.stop()


def test_documents_handed_over_while_the_engine_is_killed_arrive_exactly_once(
    engine_pipeline, engine, unique, tmp_path, rounds
):
    doc_ids = [f"{number % 2}-{number}" for number in range(DOCUMENTS)]
    requests = documents_of(unique, doc_ids)
    clients = PersistentClients(engine.address, AT_ONCE)
    # One worker dies between commit and answer. The others, and those that replace it, do not.
    once = {faults.VARIABLE: f"{faults.CALLS_COMMITTED}=kill@3", faults.ONCE_VARIABLE: str(tmp_path / "died")}
    engine.start(once)
    engine.wait_ready()
    calling = threading.Thread(target=clients.hand_over, args=(requests,))
    calling.start()
    for nth in range(1, KILLS):
        enough = DOCUMENTS * nth // KILLS
        wait_until(lambda enough=enough: len(clients.answers) >= enough or not calling.is_alive(), timeout_s=500)
        engine.kill()
        killed_at = time.monotonic()
        engine.start()
    calling.join()

    assert (tmp_path / "died").exists(), "no worker was killed between commit and answer"
    assert clients.repeats, "no caller noticed a kill"
    assert len(clients.answers) == DOCUMENTS
    verdict = judge(engine_pipeline, doc_ids, drained=())
    rounds.add(f"engine killed under {AT_ONCE} callers", verdict, time.monotonic() - killed_at)
    _check_repeats(clients, requests, engine)


def _check_repeats(clients, requests, engine):
    """A repeat across the kills is answered as the first call; the key with other content is refused."""
    some = dict(list(requests.items())[:: max(1, len(requests) // 50)])
    clients.hand_over(some)
    assert all(len(set(clients.answers[key])) == 1 and len(clients.answers[key]) == 2 for key in some)
    key, request = next(iter(some.items()))
    request.stream.document.search_metadata.title = "other content"
    with grpc.insecure_channel(engine.address) as channel, pytest.raises(grpc.RpcError) as refused:
        EngineV1ServiceStub(channel).IntakeHandoff(request, metadata=[(IDEMPOTENCY_KEY, key)], timeout=60)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert engine.stop() == 0, engine.log


@pytest.mark.parametrize("engine_pipeline", ["segments"], indirect=True)
def test_an_engine_killed_between_a_segment_and_its_commit_loses_and_repeats_nothing(
    engine_pipeline, engine, unique, tmp_path, rounds
):
    doc_ids = [f"{number % 2}-{number}" for number in range(DOCUMENTS // 2)]
    clients = PersistentClients(engine.address, AT_ONCE)
    once = {faults.VARIABLE: f"{faults.SEGMENTS_STORED}=kill@2", faults.ONCE_VARIABLE: str(tmp_path / "died")}
    engine.start(once)
    engine.wait_ready()
    started = time.monotonic()
    clients.hand_over(documents_of(unique, doc_ids))

    assert (tmp_path / "died").exists(), "no worker was killed after it stored a segment"
    verdict = judge(engine_pipeline, doc_ids, drained=())  # it reads every document where its record says it is
    rounds.add("engine killed between a segment and its commit", verdict, time.monotonic() - started)
    found = engine_pipeline.read(f"pipestream.{unique}.second")
    named = {place.key for each in found if (place := place_of(each.stream)).is_in_segment}
    with open_store(engine_pipeline.settings.store_uri, engine_pipeline.settings) as store:
        stored = set(store.list("segments"))
    assert named
    assert stored - named, "the killed worker left a segment that no record refers to"
    assert engine.stop() == 0, engine.log

"""Call a gRPC module of 20 ms for each document, 32 at a time; against 32 callers that do nothing else.

The topic has one partition, so all calls are made by one task. Documents are small and stay in their records: the
module is what is waited for. The rate is that of whole drains, from lease to ledger.
"""

from __future__ import annotations

import time

import pytest

from pipestream_testing.bench import sized
from pipestream_testing.courses import INLINE, check_outputs, make_pipeline, send_inline
from pipestream_testing.waiting_module import waiting_module

pytestmark = [pytest.mark.stack, pytest.mark.slow]

LATENCY_S = 0.020
CONCURRENCY = 32
DOCUMENTS = sized(16_000, 3_200)
DOCUMENTS_ONE_BY_ONE = sized(200, 50)
ROUNDS = sized(3, 2)

GRAPH = f"""
graph: NAME
cluster: NAME
datasources:
  - {{id: DATASOURCE, account: acme, entry: call, partitions: 1, {INLINE}}}
nodes:
  - {{id: call, module: "MODULE", concurrency: WIDTH}}
  - {{id: next, type: connector, partitions: 1}}
edges:
  - {{from: call, to: next}}
"""


@pytest.fixture
def module():
    with waiting_module(LATENCY_S) as spec:
        yield spec


def drained_per_s(settings, folder, name: str, graph: str, source: str, documents: int) -> float:
    """Drain the first documents of a topic, check that all have come through in order, and return the rate."""
    pipeline = make_pipeline(settings, folder, name, graph)
    started = time.perf_counter()
    pipeline.run(source, "run-1", budget=documents)
    took_s = time.perf_counter() - started
    check_outputs(settings, f"pipestream.{name}.next", documents)
    return documents / took_s


def test_documents_that_wait_for_a_module(settings, unique, tmp_path, scenario, module):
    made = scenario("module-concurrency", "A gRPC module of 20 ms, one partition")
    ours, alone = f"pipestream, concurrency {CONCURRENCY}", "one call at a time"
    widths = {ours: (CONCURRENCY, DOCUMENTS), alone: (1, DOCUMENTS_ONE_BY_ONE)}
    graph = GRAPH.replace("MODULE", module).replace("DATASOURCE", unique)
    make_pipeline(settings, tmp_path, f"{unique}-fill", graph.replace("WIDTH", "1"))
    send_inline(settings, f"intake.{unique}", DOCUMENTS, size_bytes=100)
    rates: dict[str, list[float]] = {name: [] for name in widths}
    for number in range(ROUNDS):
        for name, (width, documents) in widths.items():
            own = graph.replace("WIDTH", str(width))
            rates[name].append(
                drained_per_s(settings, tmp_path, f"{unique}-{number}-{width}", own, f"intake.{unique}", documents)
            )
    made.add(ours, "documents/s", *rates[ours])
    made.add(alone, "documents/s", *rates[alone], is_rival=True)
    made.add("concurrency / latency", "documents/s", CONCURRENCY / LATENCY_S, is_rival=True)
    made.want_ratio("of concurrency / latency", ours, "concurrency / latency", at_least=0.8)

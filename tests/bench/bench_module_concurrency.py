"""Call a gRPC module of 20 ms for each document, 32 at a time; against 32 callers that do nothing else.

The topic has one partition, so all calls are made by one task. Documents are small and stay in their records: the
module is what is waited for. The rate is that of whole drains, from lease to ledger.
"""

from __future__ import annotations

import time

import pytest

from pipestream_testing.bench import sized
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.waiting_module import waiting_module

pytestmark = [pytest.mark.stack, pytest.mark.slow]

LATENCY_S = 0.020
CONCURRENCY = 32
DOCUMENTS = sized(16_000, 4_800)
DOCUMENTS_ONE_BY_ONE = sized(200, 50)
ROUNDS = sized(3, 2)

GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: NAME, account: acme, entry: call, partitions: 1,
     persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
nodes:
  - {id: call, module: "MODULE", concurrency: WIDTH}
  - {id: next, type: connector, partitions: 1}
edges:
  - {from: call, to: next}
"""


@pytest.fixture
def module():
    with waiting_module(LATENCY_S) as spec:
        yield spec


def drained_per_s(settings, folder, name: str, module: str, width: int, documents: int) -> float:
    """Drain a topic of its own, check that all documents have come through in order, and return the rate."""
    file = folder / f"{name}.yaml"
    file.write_text(GRAPH.replace("NAME", name).replace("MODULE", module).replace("WIDTH", str(width)))
    pipeline = Pipeline(settings, file)
    pipeline.create_topics()
    doc_ids = [f"doc-{number:06}" for number in range(documents)]
    pipeline.send(f"intake.{name}", doc_ids)
    started = time.perf_counter()
    pipeline.drain(f"intake.{name}", "run-1")
    took_s = time.perf_counter() - started
    assert [found.doc_id for found in pipeline.read(f"pipestream.{name}.next")] == doc_ids
    return documents / took_s


def test_documents_that_wait_for_a_module(settings, unique, tmp_path, scenario, module):
    made = scenario("module-concurrency", "A gRPC module of 20 ms, one partition")
    widths = {
        f"pipestream, concurrency {CONCURRENCY}": (CONCURRENCY, DOCUMENTS),
        "one call at a time": (1, DOCUMENTS_ONE_BY_ONE),
    }
    rates: dict[str, list[float]] = {name: [] for name in widths}
    for number in range(ROUNDS):
        for name, (width, documents) in widths.items():
            rates[name].append(
                drained_per_s(settings, tmp_path, f"{unique}-{number}-{width}", module, width, documents)
            )
    ours, alone = rates
    made.add(ours, "documents/s", *rates[ours])
    made.add(alone, "documents/s", *rates[alone], is_rival=True)
    ideal = CONCURRENCY / LATENCY_S
    made.add("32 callers, nothing else", "documents/s", ideal, is_rival=True)
    made.want("of concurrency / latency", made.median(ours) / ideal, at_least=0.8)

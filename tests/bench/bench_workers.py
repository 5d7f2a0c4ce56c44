"""Two workers of one core each against one: whole runs of a topic with two slots, from lease to ledger.

Every worker is a process that may use one core only. Alone it has both partitions; two of them have a slot each, as two
Spark workers or two runs would. The module computes 3 ms for each document, so that the workers' own CPU decides, and
not what Kafka takes of the same cores. Outputs are checked before a rate is reported.
"""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from pipestream.leases import DesiredState, open_lease_store
from pipestream_testing.bench import sized
from pipestream_testing.courses import INLINE, check_outputs, make_pipeline, send_inline
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PARTITIONS = 2
DOCUMENTS = sized(4_000, 400)
ROUNDS = sized(4, 2)

GRAPH = f"""
graph: NAME
cluster: NAME
datasources:
  - {{id: DATASOURCE, account: acme, entry: first, partitions: {PARTITIONS}, {INLINE}}}
nodes:
  - id: first
    module: python:pipestream_testing.modules:computing
    config: {{cpu_s: 0.003}}
  - {{id: second, type: connector, partitions: {PARTITIONS}}}
edges:
  - {{from: first, to: second}}
"""


def rate(settings, unique, folder, contenders, name: str, workers: int) -> float:
    """Drain the topic with some workers at once, each on a core of its own, and return documents per second."""
    pipeline = make_pipeline(settings, folder, f"{unique}-{name}", GRAPH.replace("DATASOURCE", unique))
    with closing(open_lease_store(settings)) as leases:
        leases.set_desired(f"intake.{unique}", DesiredState(replicas=workers))
    config = folder / "worker.toml"
    # A run takes one slot, and leaves the other to the other worker.
    write_settings(config, settings.model_copy(update={"max_slots": 1}))
    programs = [contenders.product("run", core=core) for core in sorted(os.sched_getaffinity(0))[:workers]]
    for number, program in enumerate(programs):
        job = {"config": str(config), "graph_file": str(pipeline.graph_file), "topic": f"intake.{unique}"}
        program.begin({**job, "run_id": f"{name}-{number}"})
    found = [program.end() for program in programs]
    check_outputs(settings, f"pipestream.{unique}-{name}.second", DOCUMENTS, partitions=PARTITIONS)
    return DOCUMENTS / (max(each["ended"] for each in found) - min(each["began"] for each in found))


def test_two_workers_of_one_core_against_one(settings, unique, tmp_path, scenario, contenders):
    graph = GRAPH.replace("DATASOURCE", unique)
    make_pipeline(settings, tmp_path, f"{unique}-fill", graph)
    send_inline(settings, f"intake.{unique}", DOCUMENTS, partitions=PARTITIONS, size_bytes=100)
    names = {1: "one worker", 2: "two workers"}
    rates = {workers: [] for workers in names}
    for number in range(ROUNDS + 1):
        for workers in names:
            name = f"r{number}w{workers}"
            found = rate(settings, unique, tmp_path, contenders, name, workers)
            if number:  # the first round warms up
                rates[workers].append(found)
    made = scenario("two-workers", "A module with 3 ms of CPU: two workers of one core against one")
    for workers in (2, 1):
        made.add(names[workers], "documents/s", *rates[workers], is_rival=workers == 1)
    made.want_ratio("times one worker", names[2], names[1], at_least=1.7)

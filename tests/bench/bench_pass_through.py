"""Pass inline documents of 1 KB on to the next topic, exactly once, ledger included; against loops and Quix Streams.

All read the same topic and write to a topic of their own, in one process each. What came out is checked before a rate
is reported: every document once, and in order within its partition (a loop that repeats or loses would be fast).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from pipestream.settings import Settings
from pipestream_testing.bench import sized
from pipestream_testing.contenders import Contenders
from pipestream_testing.courses import INLINE, check_outputs, make_pipeline, make_topic, send_inline
from pipestream_testing.rival_loops import pass_on_in_transactions, pass_on_one_by_one

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PARTITIONS = 4
COUNT = sized(100_000, 20_000)
COUNT_ONE_BY_ONE = sized(2_000, 500)
ROUNDS = sized(3, 2)

GRAPH = f"""
graph: NAME
cluster: NAME
datasources:
  - {{id: DATASOURCE, account: acme, entry: first, partitions: {PARTITIONS}, {INLINE}}}
nodes:
  - {{id: first, type: connector}}
  - {{id: second, type: connector, partitions: {PARTITIONS}}}
edges:
  - {{from: first, to: second}}
"""

OURS, TRANSACTIONS, QUIX = "pipestream", "transactional loop", "Quix Streams, exactly once"
PER_CORE = "documents per core second"


@dataclass(frozen=True, slots=True)
class Took:
    """How long a contender took, and how much of a core it used."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """The topic that all read, and where the contenders write."""

    settings: Settings
    unique: str
    folder: Path
    contenders: Contenders

    @property
    def source(self) -> str:
        return f"intake.{self.unique}"

    def own_topic(self, name: str) -> str:
        return make_topic(self.settings, f"{self.unique}.{name}", PARTITIONS)

    def pipeline(self, name: str):
        return make_pipeline(
            self.settings, self.folder, f"{self.unique}-{name}", GRAPH.replace("DATASOURCE", self.unique)
        )


def timed(work: Callable[[], object]) -> Took:
    started, cpu_started = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - started, time.process_time() - cpu_started)


def ours(work: Work, number: int) -> Took:
    pipeline = work.pipeline(f"ours{number}")
    took = timed(lambda: pipeline.run(work.source, f"run-{number}"))
    check_outputs(work.settings, f"pipestream.{work.unique}-ours{number}.second", COUNT, partitions=PARTITIONS)
    pipeline.check_ledger_tiles(work.source)
    return took


def warm_up(work: Work) -> None:
    """Drain a few documents. The rivals' processes have imported all they need when their time begins."""
    other = replace(work, unique=f"{work.unique}-warm")
    pipeline = other.pipeline("ours")
    send_inline(work.settings, other.source, PARTITIONS, partitions=PARTITIONS)
    pipeline.run(other.source, "run-warm")


def transactions(work: Work, number: int) -> Took:
    target = work.own_topic(f"transactions{number}")
    took = timed(partial(pass_on_in_transactions, work.settings, work.source, target, PARTITIONS, COUNT))
    check_outputs(work.settings, target, COUNT, partitions=PARTITIONS)
    return took


def one_by_one(work: Work, number: int) -> Took:
    target = work.own_topic(f"single{number}")
    took = timed(partial(pass_on_one_by_one, work.settings, work.source, target, PARTITIONS, COUNT_ONE_BY_ONE))
    check_outputs(work.settings, target, COUNT_ONE_BY_ONE, partitions=PARTITIONS)
    return took


def quix(work: Work, number: int) -> Took:
    target, group = work.own_topic(f"quix{number}"), f"{work.unique}-quix{number}"
    place = {"broker": work.settings.kafka_bootstrap, "source": work.source, "target": target}
    job = {**place, "group": group, "count": COUNT, "state": str(work.folder / group)}
    took = Took(**work.contenders.rival("quix_pass_through.py").run(job))
    check_outputs(work.settings, target, COUNT, partitions=PARTITIONS)
    return took


def test_pass_through_of_inline_documents(settings, unique, tmp_path, scenario, contenders):
    work = Work(settings, unique, tmp_path, contenders)
    work.pipeline("fill")
    send_inline(settings, work.source, COUNT, partitions=PARTITIONS)
    warm_up(work)
    runs = {
        OURS: (ours, COUNT),
        TRANSACTIONS: (transactions, COUNT),
        QUIX: (quix, COUNT),
        "loop, a commit each": (one_by_one, COUNT_ONE_BY_ONE),
    }
    taken: dict[str, list[Took]] = {name: [] for name in runs}
    for number in range(ROUNDS):
        for name, (run, _) in runs.items():
            taken[name].append(run(work, number))
    made = scenario("pass-through", "Pass on inline documents of 1 KB, exactly once")
    for unit, cost in (("documents/s", "wall_s"), (PER_CORE, "cpu_s")):
        for name, (_, count) in runs.items():
            rates = [count / getattr(took, cost) for took in taken[name]]
            made.add(name, unit, *rates, is_rival=name != OURS)
    made.want_ratio("of the transactional loop, per core", OURS, TRANSACTIONS, PER_CORE, at_least=0.85)
    made.want_ratio("times Quix Streams, per core", OURS, QUIX, PER_CORE, at_least=1)

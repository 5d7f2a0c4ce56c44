"""Pass inline documents of 1 KB on to the next topic, exactly once, ledger included; against loops and Quix Streams.

All read the same topic and write to a topic of their own, in one process each. What came out is checked before a rate
is reported: every document once, and in order within its partition (a loop that repeats or loses would be fast).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pipestream.kafka.clients import idempotent_producer
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream.wire import PipeStream
from pipestream_testing.bench import sized
from pipestream_testing.pipeline import Pipeline, read_topic
from pipestream_testing.rival_loops import pass_on_in_transactions, pass_on_one_by_one
from pipestream_testing.rivals import run_rival

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PARTITIONS = 4
COUNT = sized(100_000, 20_000)
COUNT_ONE_BY_ONE = sized(2_000, 500)
ROUNDS = sized(3, 2)

GRAPH = """
graph: NAME
cluster: NAME
datasources:
  - {id: DATASOURCE, account: acme, entry: first, partitions: 4,
     persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}}
nodes:
  - {id: first, type: connector}
  - {id: second, type: connector, partitions: 4}
edges:
  - {from: first, to: second}
"""


@dataclass(frozen=True, slots=True)
class Took:
    """How long a contender took, and how much of a core it used."""

    seconds: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """The topic that all read, and where the contenders write."""

    settings: Settings
    unique: str
    folder: Path

    @property
    def source(self) -> str:
        return f"intake.{self.unique}"

    def fill(self) -> None:
        producer = idempotent_producer(self.settings)
        for number in range(COUNT):
            stream = PipeStream()
            stream.document.doc_id = f"doc-{number:07}"
            stream.document.search_metadata.body = "x" * 1_000
            key = stream.document.doc_id.encode()
            producer.produce(self.source, stream.SerializeToString(), key, partition=number % PARTITIONS)
            if number % 10_000 == 0:
                producer.flush()
        assert producer.flush(120) == 0

    def own_topic(self, name: str) -> str:
        topic = f"{self.unique}.{name}"
        TopicAdmin(self.settings).create([TopicSpec(topic, PARTITIONS, None, Purpose.NODE)])
        return topic

    def pipeline(self, name: str) -> Pipeline:
        file = self.folder / f"{name}.yaml"
        file.write_text(GRAPH.replace("NAME", f"{self.unique}-{name}").replace("DATASOURCE", self.unique))
        made = Pipeline(self.settings, file)
        made.create_topics()
        return made


def check(settings: Settings, topic: str, count: int) -> None:
    """Check that all documents are in a topic, each once, and in the order of the partition that they came from."""
    ways: dict[tuple[int, int], list[int]] = {}
    for found in read_topic(settings, topic):
        number = int(found.doc_id.removeprefix("doc-"))
        ways.setdefault((number % PARTITIONS, found.record.partition), []).append(number)
    assert sum(map(len, ways.values())) == count
    assert all(numbers == sorted(set(numbers)) for numbers in ways.values()), "repeated or out of order"


def timed(work: Callable[[], object]) -> Took:
    started, cpu_started = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - started, time.process_time() - cpu_started)


def ours(work: Work, number: int) -> Took:
    pipeline = work.pipeline(f"ours{number}")
    took = timed(lambda: pipeline.drain(work.source, f"run-{number}"))
    check(work.settings, f"pipestream.{work.unique}-ours{number}.second", COUNT)
    return took


def transactions(work: Work, number: int) -> Took:
    target = work.own_topic(f"transactions{number}")
    took = timed(partial(pass_on_in_transactions, work.settings, work.source, target, PARTITIONS, COUNT))
    check(work.settings, target, COUNT)
    return took


def one_by_one(work: Work, number: int) -> Took:
    target = work.own_topic(f"single{number}")
    return timed(partial(pass_on_one_by_one, work.settings, work.source, target, PARTITIONS, COUNT_ONE_BY_ONE))


def quix(work: Work, number: int) -> Took:
    target, group = work.own_topic(f"quix{number}"), f"{work.unique}-quix{number}"
    broker, state = work.settings.kafka_bootstrap, work.folder / group
    took = Took(*run_rival("quix_pass_through.py", broker, work.source, target, group, COUNT, state))
    check(work.settings, target, COUNT)
    return took


def test_pass_through_of_inline_documents(settings, unique, tmp_path, scenario):
    work = Work(settings, unique, tmp_path)
    work.pipeline("fill")
    work.fill()
    contenders = {
        "pipestream": (ours, COUNT),
        "transactional loop": (transactions, COUNT),
        "Quix Streams, exactly once": (quix, COUNT),
        "loop, a commit each": (one_by_one, COUNT_ONE_BY_ONE),
    }
    taken: dict[str, list[Took]] = {name: [] for name in contenders}
    for number in range(ROUNDS):
        for name, (run, _) in contenders.items():
            taken[name].append(run(work, number))
    made = scenario("pass-through", "Pass on inline documents of 1 KB, exactly once")
    for unit, cost in (("documents/s", "seconds"), ("documents per core second", "cpu_s")):
        for name, (_, count) in contenders.items():
            rates = [count / getattr(took, cost) for took in taken[name]]
            made.add(name, unit, *rates, is_rival=name != "pipestream")
    per_core = {each.contender: each.median for each in made.measured[len(contenders) :]}
    made.want(
        "of the transactional loop, per core", per_core["pipestream"] / per_core["transactional loop"], at_least=0.85
    )
    made.want(
        "times Quix Streams, per core", per_core["pipestream"] / per_core["Quix Streams, exactly once"], at_least=1
    )

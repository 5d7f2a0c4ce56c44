"""Read four partitions in order of time: against a plain loop that sorts once at the end, and against kafkars.

All read the same topic from its start to its end, and the time counts from opening the client. The plain loop keeps all
records in memory and sorts them once, which only works for a topic that fits; the reader holds ``max_held_messages`` at
most. Before a rate is reported, records are counted, and so is how often the time goes back from one to the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from pipestream import OrderedReader, SourceTopic
from pipestream.kafka.connection import client_config
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream_testing.bench import sized
from pipestream_testing.rival_loops import reading
from pipestream_testing.rivals import run_rival

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PARTITIONS = 4
COUNT = sized(1_000_000, 100_000)
ROUNDS = sized(5, 2)
BATCH = 10_000
T0_MS = 1_769_860_800_000


@dataclass(frozen=True, slots=True)
class Read:
    """How long a contender took, what it found, and how often the time went back."""

    seconds: float
    cpu_s: float
    records: float
    inversions: float


def fill(settings: Settings, topic: str) -> None:
    """Write records of 200 bytes, whose times grow while they fall into the partitions at random."""
    TopicAdmin(settings).create([TopicSpec(topic, PARTITIONS, -1, Purpose.NODE)])
    producer = Producer({**client_config(settings), "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    chance = random.Random(1)
    value = b"x" * 200
    for number in range(COUNT):
        partition = chance.randrange(PARTITIONS)
        producer.produce(topic, value, b"%d" % number, partition, timestamp=T0_MS + number // 5)
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(120) == 0


def measured(read: Callable[[], list[int]]) -> Read:
    started, cpu_started = time.perf_counter(), time.process_time()
    times = read()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    return Read(seconds, cpu_s, len(times), sum(after < before for before, after in pairwise(times)))


def read_with_ours(settings: Settings, topic: str, batch_size: int) -> list[int]:
    columns = []
    with OrderedReader(settings, [SourceTopic.from_earliest(topic)], batch_size=batch_size) as reader:
        while not reader.is_live():
            columns.append(reader.poll().column("timestamp_ms"))
    return [moment for column in columns for moment in column.to_pylist()]


def read_with_a_loop(settings: Settings, topic: str) -> list[int]:
    found = []
    with reading(settings, topic, PARTITIONS) as consumer:
        while len(found) < COUNT:
            found += consumer.consume(BATCH, 0.5)
    found.sort(key=lambda message: message.timestamp()[1])
    return [message.timestamp()[1] for message in found]


def read_with_kafkars(settings: Settings, topic: str) -> Read:
    group = f"{topic}-{time.time_ns()}"
    return Read(*run_rival("kafkars_ordered.py", settings.kafka_bootstrap, topic, group, BATCH, COUNT))


def test_records_in_order_of_time(settings, unique, scenario):
    fill(settings, unique)
    contenders = {
        "pipestream": lambda: measured(lambda: read_with_ours(settings, unique, BATCH)),
        "pipestream, batches of 1,000": lambda: measured(lambda: read_with_ours(settings, unique, 1_000)),
        "plain loop and one sort": lambda: measured(lambda: read_with_a_loop(settings, unique)),
        "kafkars": lambda: read_with_kafkars(settings, unique),
    }
    taken: dict[str, list[Read]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, read in contenders.items():
            taken[name].append(read())
    for name, reads in taken.items():
        assert {each.records for each in reads} == {COUNT}, f"{name} has lost or repeated records"
        assert name == "kafkars" or not any(each.inversions for each in reads), f"{name}: the time went back"
    made = scenario("ordered-read", "Read four partitions in order of time, records of 200 bytes")
    for unit, cost in (("records/s", "seconds"), ("records per core second", "cpu_s")):
        for name, reads in taken.items():
            made.add(
                name, unit, *(COUNT / getattr(each, cost) for each in reads), is_rival=not name.startswith("pipestream")
            )
    made.want_ratio("of the plain loop", "pipestream", "plain loop and one sort", at_least=0.9)
    most = max(each.inversions for each in taken["kafkars"])
    made.note(f"the time went back 0 times; with kafkars {most:.0f} times in a reading at most")

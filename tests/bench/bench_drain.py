"""Measure the drain against a loop that commits each record, and against the object store alone, in one run.

Every document is hydrated, decided over five conditions, saved and published. Each contender has records of its own of
one topic with one partition, and runs in a process of its own; they take turns. Outputs are counted and their order is
checked before a time is reported. Targets: 10 times the loop, 80 % of get and put alone.

``BENCH_DOCUMENTS`` and ``BENCH_ROUNDS`` change the length. ``BENCH_BEFORE`` names a checkout of an earlier version,
which then takes part as ``before``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from dataclasses import asdict, dataclass

import pytest

from pipestream.drain.range_task import transactional_id
from pipestream.graph.load import check_graph_text
from pipestream.graph.proto import to_binary
from pipestream.kafka.broker import Broker
from pipestream.objects.store import open_store
from pipestream.settings import CONFIG_VARIABLE
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing import drain_rivals
from pipestream_testing.bench import sized
from pipestream_testing.made import make_task
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings

pytestmark = [pytest.mark.slow, pytest.mark.stack]

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", sized("2000", "1000")))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", sized("3", "2")))
BEFORE = os.environ.get("BENCH_BEFORE", "")
# The loop is so much slower that fewer documents tell as much.
LOOP_SHARE = 10
SIZES = {"1 KB": 1_000, "10 KB": 10_000}
# What a contender needs to know. Everything else, the size of chunks too, is its version's own default.
NEEDED_SETTINGS = ("kafka_bootstrap", "kafka_timeout_s", "store_uri", "s3_")

GRAPH = """
graph: UNIQUE
cluster: UNIQUE
datasources: [{id: UNIQUE, account: acme, entry: start, partitions: 1}]
nodes:
  - {id: start, type: connector}
  - {id: one, type: connector, partitions: 1}
  - {id: two, type: connector, partitions: 1}
  - {id: three, type: connector}
  - {id: four, type: connector}
  - {id: five, type: connector}
edges:
  - {from: start, to: one, when: 'doc.search_metadata.document_type == "PDF"'}
  - {from: start, to: two, when: 'doc.blob_bag.blob.size_bytes > 10000000'}
  - {from: start, to: three, when: 'doc.search_metadata.source_uri.startsWith("s3://sensitive-bucket/")'}
  - {from: start, to: four, when: '"legal" in doc.search_metadata.tags.tag_data'}
  - {from: start, to: five, when: 'doc.search_metadata.content_length > 1000000'}
"""


@dataclass(frozen=True, slots=True)
class Took:
    """What a contender needed for some documents."""

    documents: int
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.documents / self.seconds


class Course:
    """A topic full of references, and the contenders that take turns over it."""

    def __init__(self, settings, unique, folder, size_bytes):
        self.settings, self.unique, self.folder, self.size_bytes = settings, unique, folder, size_bytes
        file = folder / f"{unique}.yaml"
        file.write_text(GRAPH.replace("UNIQUE", unique))
        self.pipeline = Pipeline(settings, file)
        self.graph = check_graph_text(file.read_bytes(), file.name).require()
        TopicAdmin(settings).create(required_topics(self.graph, settings))
        self.topic = f"intake.{unique}"
        self.topic_id = Broker(settings).identify(self.topic).topic_id
        self.config = folder / "settings.toml"
        write_settings(self.config, settings)
        plain = [line for line in self.config.read_text().splitlines() if line.startswith(NEEDED_SETTINGS)]
        self.config.write_text("\n".join(plain))
        self.next = 0

    def fill(self, count):
        """Store and publish ``count`` documents; return their numbers."""
        numbers = range(self.next, self.next + count)
        self.next += count
        streams, items = [], []
        for number in numbers:
            document = PipeDoc(doc_id=f"doc-{number:07}")
            document.search_metadata.document_type = "PDF"
            document.search_metadata.body = "x" * self.size_bytes
            stream = PipeStream()
            stream.document_ref.doc_id = document.doc_id
            stream.document_ref.object_key = self.key(number)
            streams.append(stream)
            items.append((self.key(number), document.SerializeToString()))
        with open_store(self.settings.store_uri, self.settings) as store:
            store.put_many(items)
        self.pipeline.send_streams(self.topic, streams)
        return numbers

    def key(self, number):
        return f"documents/acme/{self.unique}/doc-{number:07}.pb"

    def run(self, contender, numbers):
        """Let a contender process the documents of some numbers; check what came out, and return its times."""
        name = f"{contender}-{numbers.start}"
        kind = "drain" if contender == "before" else contender
        group = f"{self.unique}-{name}"
        task = make_task(
            self.topic,
            "start",
            topic_id=self.topic_id,
            datasource_id=self.unique,
            offsets=((0, numbers.start, numbers.stop),),
            group=group,
            lane=self.unique,
            run_id=name,
            transactional_ids=(transactional_id(group, self.topic, 0),),
            graph=b64encode(to_binary(self.graph)).decode(),
        )
        job = {
            "task": asdict(task),
            "group": group,
            "topic": f"pipestream.{self.unique}.two",
            "prefix": f"documents/acme/{self.unique}-{contender}",
            "keys": [self.key(number) for number in numbers],
        }
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(job))
        environment = {**os.environ, CONFIG_VARIABLE: str(self.config)}
        if contender == "before":
            environment["PYTHONPATH"] = BEFORE
        done = subprocess.run(
            [sys.executable, drain_rivals.__file__, kind, str(file)],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.check(kind, numbers, job)
        return json.loads(done.stdout)

    def check(self, kind, numbers, job):
        expected = [f"doc-{number:07}" for number in numbers]
        if kind != "objects":
            topic = f"pipestream.{self.unique}.one" if kind == "drain" else job["topic"]
            found = [each.doc_id or each.record.key.decode() for each in self.pipeline.read(topic)]
            assert found[-len(expected) :] == expected, f"{kind}: documents are lost, doubled or out of order"
        if kind != "drain":
            with open_store(self.settings.store_uri, self.settings) as store:
                stored = sum(1 for key in store.list(job["prefix"]))
            assert stored >= len(expected)


@pytest.mark.parametrize("place", ["S3", "folder"])
@pytest.mark.parametrize("size", SIZES)
def test_hydrate_decide_save_and_publish(settings, unique, tmp_path, scenario, place, size):
    if place == "folder":
        settings = settings.model_copy(update={"store_uri": (tmp_path / "objects").as_uri()})
    contenders = {"drain": "pipestream", "objects": "objects alone", "loop": "loop, a commit each"}
    if BEFORE:
        contenders["before"] = "pipestream, before"
    course = Course(settings, f"{unique}{SIZES[size]}", tmp_path, SIZES[size])
    taken: dict[str, list[Took]] = {contender: [] for contender in contenders}
    for number in range(ROUNDS):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            numbers = course.fill(DOCUMENTS // LOOP_SHARE if contender == "loop" else DOCUMENTS)
            found = course.run(contender, numbers)
            taken[contender].append(Took(len(numbers), found["wall_s"], found["cpu_s"]))
    name = f"drain-{place}-{size}".replace(" ", "").lower()
    made = scenario(name, f"Hydrate, five conditions, save, publish: documents of {size} on {place}")
    for contender, label in contenders.items():
        made.add(label, "documents/s", *(each.rate for each in taken[contender]), is_rival=contender != "drain")
    for contender, label in contenders.items():
        cpu = [1e6 * each.cpu_s / each.documents for each in taken[contender]]
        made.add(label, "µs of CPU a document", *cpu, is_rival=contender != "drain")
    ours = made.median("pipestream")
    made.want("times the loop", ours / made.median("loop, a commit each"), at_least=10)
    made.want("of objects alone", ours / made.median("objects alone"), at_least=0.8)

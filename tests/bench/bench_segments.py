"""Measure a drain whose documents are in segments, against one object each and against the object store alone.

Every document is hydrated, decided over five conditions, saved and published, exactly once. The documents of a
contender come from another node, stored as the contender stores them. Each runs in a process of its own, over records
of its own in one partition. What came out is read back before a rate is reported. Target: 5 times get and put alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from pipestream.documents.fetch import fetch_documents
from pipestream.documents.references import place_of
from pipestream.documents.segments import build_segment, draw_segment_key
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

ROUNDS = sized(3, 1)
SIZES = {"1 KB": 1_000, "10 KB": 10_000}
# Opening a producer and a consumer takes a second, so a fast contender needs more documents for its rate.
COUNTS = {"objects": sized(3_000, 1_000), "segments": sized(20_000, 6_000)}
SEGMENT_DOCUMENTS = 800
NEEDED_SETTINGS = ("kafka_bootstrap", "kafka_timeout_s", "store_uri", "s3_")

GRAPH = """
graph: UNIQUE
cluster: UNIQUE
nodes:
  - {id: feed, type: connector}
  - {id: start, type: connector, partitions: 1, storage: STORAGE}
  - {id: one, type: connector, partitions: 1}
  - {id: two, type: connector}
  - {id: three, type: connector}
  - {id: four, type: connector}
  - {id: five, type: connector}
edges:
  - {from: feed, to: start}
  - {from: start, to: one, when: 'doc.search_metadata.document_type == "PDF"'}
  - {from: start, to: two, when: 'doc.blob_bag.blob.size_bytes > 10000000'}
  - {from: start, to: three, when: 'doc.search_metadata.source_uri.startsWith("s3://sensitive-bucket/")'}
  - {from: start, to: four, when: '"legal" in doc.search_metadata.tags.tag_data'}
  - {from: start, to: five, when: 'doc.search_metadata.content_length > 1000000'}
"""


class Course:
    """A node's topic full of references, and what drains it with one way to store documents."""

    def __init__(self, settings, unique, folder, size_bytes, storage):
        folder.mkdir()
        self.settings, self.unique, self.folder, self.size_bytes = settings, unique, folder, size_bytes
        self.storage, self.next = storage, 0
        file = folder / f"{unique}.yaml"
        file.write_text(GRAPH.replace("UNIQUE", unique).replace("STORAGE", storage))
        self.pipeline = Pipeline(settings, file)
        self.graph = check_graph_text(file.read_bytes(), file.name).require()
        TopicAdmin(settings).create(required_topics(self.graph, settings))
        self.topic = f"pipestream.{unique}.start"
        self.topic_id = Broker(settings).identify(self.topic).topic_id
        self.config = folder / "settings.toml"
        write_settings(self.config, settings)
        plain = [line for line in self.config.read_text().splitlines() if line.startswith(NEEDED_SETTINGS)]
        self.config.write_text("\n".join(plain))

    def fill(self, count):
        """Store and publish documents as an earlier node would have; return their numbers and their own keys."""
        numbers = range(self.next, self.next + count)
        self.next += count
        streams, objects = [], []
        for number in numbers:
            stream = PipeStream(stream_id=f"{self.unique}-{number}", current_node_id="start")
            stream.metadata.account_id = "acme"
            stream.document_ref.doc_id = f"doc-{number:07}"
            stream.document_ref.account_id = "acme"
            stream.document_ref.source_node_id = "feed"
            stream.document_ref.object_key = f"streams/acme/{stream.stream_id}/feed.pb"
            document = PipeDoc(doc_id=stream.document_ref.doc_id)
            document.search_metadata.document_type = "PDF"
            document.search_metadata.body = "x" * self.size_bytes
            streams.append(stream)
            objects.append((stream.document_ref.object_key, document.SerializeToString()))
        stored = self._pack(streams, objects) if self.storage == "segments" else objects
        with open_store(self.settings.store_uri, self.settings) as store:
            store.put_many(stored)
        self.pipeline.send_streams(self.topic, streams)
        return numbers, [key for key, _ in objects]

    def _pack(self, streams, objects):
        packed = []
        for start in range(0, len(streams), SEGMENT_DOCUMENTS):
            some = [data for _, data in objects[start : start + SEGMENT_DOCUMENTS]]
            segment, key = build_segment(some), draw_segment_key("acme", "feed", datetime.now(UTC))
            packed.append((key, segment.data))
            for index, (offset, data) in enumerate(zip(segment.offsets, some, strict=True)):
                reference = streams[start + index].document_ref
                reference.object_key, reference.object_offset, reference.object_length = key, offset, len(data)
        return packed

    def run(self, kind, numbers, keys):
        """Let a contender process documents; check what came out, and return what it took."""
        name = f"{kind}-{numbers.start}"
        group = f"{self.unique}-{name}"
        task = make_task(
            self.topic,
            "start",
            topic_id=self.topic_id,
            offsets=((0, numbers.start, numbers.stop),),
            group=group,
            lane=self.unique,
            run_id=name,
            transactional_ids=(transactional_id(group, self.topic, 0),),
            graph=b64encode(to_binary(self.graph)).decode(),
        )
        job = {"task": asdict(task), "group": group, "prefix": f"copies/{self.unique}", "keys": keys}
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(job))
        done = subprocess.run(
            [sys.executable, drain_rivals.__file__, kind, str(file)],
            env={**os.environ, CONFIG_VARIABLE: str(self.config)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        if kind == "drain":
            self.check(numbers)
        return json.loads(done.stdout)

    def check(self, numbers):
        """Read each output's document, and compare order and number."""
        found = self.pipeline.read(f"pipestream.{self.unique}.one")[-len(numbers) :]
        places = [place_of(each.stream) for each in found]
        with open_store(self.settings.store_uri, self.settings) as store:
            documents = fetch_documents(store, places)
        expected = [f"doc-{number:07}" for number in numbers]
        assert [PipeDoc.FromString(each).doc_id for each in documents] == expected, "lost, doubled or out of order"
        assert {place.is_in_segment for place in places} == {self.storage == "segments"}


@pytest.mark.parametrize("place", ["s3", "folder"])
def test_documents_in_segments_and_one_object_each(settings, unique, tmp_path, scenario, place):
    if place == "folder":
        settings = settings.model_copy(update={"store_uri": (tmp_path / "store").as_uri()})
    for label, size_bytes in SIZES.items():
        courses = {
            storage: Course(
                settings, f"{unique}{size_bytes}{storage}", tmp_path / f"{storage}{size_bytes}", size_bytes, storage
            )
            for storage in ("objects", "segments")
        }
        contenders = {
            "segments": ("drain", courses["segments"]),
            "one object each": ("drain", courses["objects"]),
            "get and put alone": ("objects", courses["objects"]),
        }
        rates, requests, cpu = defaultdict(list), defaultdict(list), defaultdict(list)
        for _ in range(ROUNDS):
            for name, (kind, course) in contenders.items():
                numbers, keys = course.fill(COUNTS[course.storage])
                took = course.run(kind, numbers, keys)
                rates[name].append(len(numbers) / took["wall_s"])
                requests[name].append(took["requests"] / len(numbers))
                cpu[name].append(1e6 * took["cpu_s"] / len(numbers))
        made = scenario(
            f"segments-{place}-{size_bytes}", f"Hydrate, decide, save and publish {label} documents, {place}"
        )
        for name in contenders:
            made.add(name, "documents/s", *rates[name], is_rival=name != "segments")
        for name in contenders:
            made.add(f"{name}: requests", "per document", *requests[name], is_rival=name != "segments")
        for name in contenders:
            made.add(f"{name}: CPU", "µs per document", *cpu[name], is_rival=name != "segments")
        ratio = made.median("segments") / made.median("get and put alone")
        made.want("segments, times get and put alone", ratio, at_least=5)
        made.want("segments, requests per document", made.median("segments: requests"), at_most=0.05)

"""What benchmarks of drains set up: a graph with its topics, documents in them, and jobs for contenders.

A topic is filled once. All contenders drain the same records of it, each under a consumer group of its own.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from pipestream.documents.segments import build_segment, draw_segment_key
from pipestream.drain.range_task import transactional_id
from pipestream.graph.proto import to_binary
from pipestream.kafka.broker import Broker
from pipestream.kafka.clients import idempotent_producer, range_consumer
from pipestream.kafka.errors import is_end_of_partition, is_passing
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import Purpose, TopicSpec
from pipestream.wire import PipeDoc, PipeStream
from pipestream_testing.made import make_task
from pipestream_testing.pipeline import Pipeline
from pipestream_testing.settings_file import write_settings
from pipestream_testing.settling import wait_until_settled

FIVE_CONDITIONS = """
  - {id: one, type: connector, partitions: 1}
  - {id: two, type: connector}
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
"""The nodes behind ``start`` and the edges to them. Of the conditions the first one holds."""

INLINE = "persistence: {persist_pipedoc: false, max_inline_size_bytes: 100000}"
"""Of a datasource: documents stay in their records."""

# What a contender of an earlier version needs to know. Everything else, the size of chunks too, is its own default.
_NEEDED = ("kafka_bootstrap", "kafka_timeout_s", "store_uri", "s3_")
_SEGMENT_DOCUMENTS = 800
_ANSWER_S = 120.0


def make_pipeline(settings: Settings, folder: Path, name: str, graph: str) -> Pipeline:
    """Return the pipeline of a graph whose text says NAME where its name belongs; its topics are made."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(graph.replace("NAME", name))
    made = Pipeline(settings, file)
    made.create_topics()
    return made


def make_topic(settings: Settings, topic: str, partitions: int = 1) -> str:
    """Make a topic for the outputs of a rival, and return its name."""
    TopicAdmin(settings).create([TopicSpec(topic, partitions, None, Purpose.NODE)])
    return topic


def make_document(number: int, size_bytes: int) -> PipeDoc:
    """Return a document that the first of the five conditions holds for."""
    document = PipeDoc(doc_id=doc_id(number))
    document.search_metadata.document_type = "PDF"
    document.search_metadata.body = "x" * size_bytes
    return document


def doc_id(number: int) -> str:
    return f"doc-{number:07}"


def send_inline(settings: Settings, topic: str, count: int, *, partitions: int = 1, size_bytes: int = 1_000) -> None:
    """Publish documents in their records, in turns to the partitions of an intake topic."""
    producer = idempotent_producer(settings)
    for number in range(count):
        stream = PipeStream(document=make_document(number, size_bytes))
        value, key = stream.SerializeToString(), stream.document.doc_id.encode()
        while True:
            try:
                producer.produce(topic, value, key, partition=number % partitions)
                break
            except BufferError:  # the client holds as many as it may
                producer.poll(0.1)
    assert producer.flush(_ANSWER_S) == 0, "Kafka has not taken all records"


def read_keys(settings: Settings, topic: str) -> dict[int, list[str]]:
    """Return the keys of a topic's committed records by partition, in order. They are the ids of the documents."""
    wait_until_settled(settings, [topic])
    partitions = Broker(settings).identify(topic).partitions
    found: dict[int, list[str]] = {partition: [] for partition in partitions}
    reading = set(partitions)
    with closing(range_consumer(settings, "bench-reader")) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        while reading:
            for message in consumer.consume(10_000, 0.1):
                if (error := message.error()) is None:
                    found[message.partition()].append(message.key().decode())
                elif is_end_of_partition(error):
                    reading.discard(message.partition())
                else:
                    assert is_passing(error), error
    return found


def check_outputs(settings: Settings, topic: str, count: int, *, partitions: int = 1) -> None:
    """Check that the documents of ``send_inline`` are in a topic, each once, and in order of where they came from."""
    ways: dict[tuple[int, int], list[int]] = {}
    for partition, keys in read_keys(settings, topic).items():
        for key in keys:
            number = int(key.removeprefix("doc-"))
            ways.setdefault((number % partitions, partition), []).append(number)
    assert sum(map(len, ways.values())) == count, f"{topic}: documents are lost or repeated"
    assert all(numbers == sorted(set(numbers)) for numbers in ways.values()), f"{topic}: repeated or out of order"


@dataclass(slots=True)
class Course:
    """A topic of one partition that contenders drain, and where it leads."""

    pipeline: Pipeline
    topic: str
    node_id: str
    datasource_id: str = ""
    size_bytes: int = 1_000
    keys: list[str] = field(default_factory=list)
    """Of the objects of all documents, by number."""

    @property
    def settings(self) -> Settings:
        return self.pipeline.settings

    @property
    def name(self) -> str:
        return self.pipeline.graph.graph_id

    @property
    def folder(self) -> Path:
        return self.pipeline.graph_file.parent

    def fill(self, count: int, *, storage: str = "objects") -> None:
        """Store documents as an earlier node would have, and publish their references.

        :param storage: one object for each document, or ``segments``.
        """
        streams = [self._stream(number) for number in range(len(self.keys), len(self.keys) + count)]
        objects = []
        for number, stream in enumerate(streams, len(self.keys)):
            document = make_document(number, self.size_bytes)
            objects.append((stream.document_ref.object_key, document.SerializeToString()))
        self.keys += [key for key, _ in objects]
        with open_store(self.settings.store_uri, self.settings) as store:
            store.put_many(list(_pack(streams, objects)) if storage == "segments" else objects)
        self.pipeline.send_streams(self.topic, streams)

    def _stream(self, number: int) -> PipeStream:
        stream = PipeStream()
        reference = stream.document_ref
        reference.doc_id = doc_id(number)
        if self.datasource_id:
            reference.object_key = f"documents/acme/{self.name}/{reference.doc_id}.pb"
            return stream
        stream.stream_id, stream.current_node_id = f"{self.name}-{number}", self.node_id
        stream.metadata.account_id = reference.account_id = "acme"
        reference.source_node_id = "feed"
        reference.object_key = f"streams/acme/{stream.stream_id}/feed.pb"
        return stream

    def job(self, contender: str, start: int, end: int, *, is_plain: bool = False, **more: Any) -> dict[str, Any]:
        """Return the job to drain some records, under a group of the contender's own.

        :param is_plain: with no settings but those that every version has.
        """
        group = f"{self.name}-{contender}-{start}-{datetime.now(UTC):%H%M%S%f}"
        task = make_task(
            self.topic,
            self.node_id,
            topic_id=self._topic_id,
            datasource_id=self.datasource_id,
            offsets=((0, start, end),),
            group=group,
            lane=self.name,
            run_id=group,
            transactional_ids=(transactional_id(group, self.topic, 0),),
            graph=b64encode(to_binary(self.pipeline.graph)).decode(),
        )
        config = self.folder / f"{self.name}{'-plain' if is_plain else ''}.toml"
        write_settings(config, self.settings)
        if is_plain:
            lines = [line for line in config.read_text().splitlines() if line.startswith(_NEEDED)]
            config.write_text("\n".join(lines))
        prefix = f"documents/acme/{self.name}-{contender}"
        return {
            "config": str(config),
            "task": asdict(task),
            "group": group,
            "prefix": prefix,
            "keys": self.keys[start:end],
            **more,
        }

    @property
    def _topic_id(self) -> str:
        return Broker(self.settings).identify(self.topic).topic_id

    def check_last(self, topic: str, numbers: range) -> None:
        """Check that the last records of an output topic are those of some documents, in order."""
        (found,) = read_keys(self.settings, topic).values()
        assert found[-len(numbers) :] == [doc_id(each) for each in numbers], f"{topic}: lost, doubled or out of order"


def _pack(streams: Sequence[PipeStream], objects: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Yield segments of documents, and let the streams refer to their places."""
    for start in range(0, len(streams), _SEGMENT_DOCUMENTS):
        some = [data for _, data in objects[start : start + _SEGMENT_DOCUMENTS]]
        segment, key = build_segment(some), draw_segment_key("acme", "feed", datetime.now(UTC))
        for stream, offset, data in zip(streams[start : start + len(some)], segment.offsets, some, strict=True):
            reference = stream.document_ref
            reference.object_key, reference.object_offset, reference.object_length = key, offset, len(data)
        yield key, segment.data

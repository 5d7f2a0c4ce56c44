"""A small pipeline on real servers, for tests that drain it and then ask where every document went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from google.protobuf.message import DecodeError

from pipestream.drain.live_lane import LiveLane
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import Runner
from pipestream.drain.report import DrainReport
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.graph.load import load_graph
from pipestream.kafka.broker import Broker, ask_committed
from pipestream.kafka.clients import idempotent_producer, range_consumer
from pipestream.kafka.errors import is_end_of_partition, is_passing
from pipestream.kafka.messages import to_record
from pipestream.kafka.records import Headers, InputRecord
from pipestream.leases import open_lease_store
from pipestream.ledger import Entry, Ledger
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics
from pipestream.wire import PipeStream
from pipestream_testing.settling import wait_until_settled

_ANSWER_S = 120.0
# The broker aborts what a dead producer left open after a minute, and looks for it every ten seconds.
_OPEN_TRANSACTION_S = 120.0


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """A record found in a topic: whose document, where, and what its headers say."""

    doc_id: str
    record: InputRecord
    stream: PipeStream


class Pipeline:
    """A graph on real servers. Documents go in by ``send``, ``drain`` moves them, ``read`` finds them again."""

    def __init__(self, settings: Settings, graph_file: Path) -> None:
        self.settings = settings
        self.graph_file = graph_file
        self.graph = load_graph(graph_file)
        self.ledger = Ledger(settings)

    def create_topics(self) -> None:
        TopicAdmin(self.settings).create(required_topics(self.graph, self.settings))

    def send(self, topic: str, doc_ids: Sequence[str], partition: int = 0, timestamp: datetime | None = None) -> None:
        """Publish small inline documents to one partition of an intake topic."""
        streams = []
        for doc_id in doc_ids:
            stream = PipeStream()
            stream.document.doc_id = doc_id
            stream.document.search_metadata.title = doc_id
            streams.append(stream)
        self.send_streams(topic, streams, partition, timestamp)

    def send_streams(
        self,
        topic: str,
        streams: Iterable[PipeStream],
        partition: int = 0,
        timestamp: datetime | None = None,
        headers: Headers = (),
    ) -> None:
        """Publish streams to one partition of a topic, under their documents' ids."""
        sent_at = int(timestamp.timestamp() * 1000) if timestamp else 0
        with self._sending(topic) as send:
            for stream in streams:
                key = (stream.document.doc_id or stream.document_ref.doc_id).encode()
                value = stream.SerializeToString()
                send(value=value, key=key, partition=partition, timestamp=sent_at, headers=list(headers))

    def send_bytes(self, topic: str, value: bytes | None, *, key: bytes = b"", partition: int = 0) -> None:
        """Publish any record."""
        with self._sending(topic) as send:
            send(value=value, key=key, partition=partition)

    def drain(self, topic: str, run_id: str, *, runner: Runner | None = None, budget: int = 1_000_000) -> DrainReport:
        """Drain a topic in this process; what it has committed shows in every topic of the graph when this returns."""
        report = self.run(topic, run_id, runner=runner, budget=budget)
        # A run that was skipped has fenced nobody, and must not wait for what the one that it found has open.
        if report.status == "drained":
            wait_until_settled(self.settings, [spec.name for spec in required_topics(self.graph, self.settings)])
        return report

    def run(self, topic: str, run_id: str, *, runner: Runner | None = None, budget: int = 1_000_000) -> DrainReport:
        """Drain a topic in this process, and return as soon as the run has ended: what a benchmark measures."""
        request = DrainRequest(self.graph, topic, run_id, budget)
        here = LocalRunner(self.settings)
        with closing(open_lease_store(self.settings)) as leases:
            return run_drain(request, self.settings, runner or here, leases=leases, on_lease_lost=here.cancel)

    def read(self, *topics: str) -> list[FoundRecord]:
        """Return every committed record of some topics, in order of topic, partition and offset."""
        return read_topic(self.settings, *topics)

    def doc_ids(self, topic: str) -> Counter[str]:
        """Return how often each document is in a topic."""
        return Counter(each.doc_id for each in self.read(topic))

    def entries(self, topic: str) -> list[Entry]:
        return self.ledger.entries(lane=self.graph.graph_id, topic=topic)

    def group_offsets(self, topic: str) -> dict[int, int]:
        """Return the offsets that the live runs have committed, once no transaction is about to move them."""
        group = LiveLane.of(self.graph).group
        wanted = [TopicPartition(topic, partition) for partition in Broker(self.settings).identify(topic).partitions]
        with closing(range_consumer(self.settings, group)) as consumer:
            found = ask_committed(consumer, wanted, _OPEN_TRANSACTION_S)
        return {partition: committed.offset for (_, partition), committed in found.items()}

    def check_ledger_tiles(self, topic: str) -> None:
        """Check that the entries of a topic join without gap or overlap, from its start to its end."""
        wait_until_settled(self.settings, [topic])
        identity = Broker(self.settings).identify(topic)
        marks = Broker(self.settings).watermarks(topic, identity.partitions)
        for partition, mark in marks.items():
            at = 0
            for entry in self.entries(topic):
                if entry.range.partition == partition:
                    assert entry.range.start == at, f"{entry.range}: expected to start at {at}"
                    at = entry.range.end
            assert at == mark.high, f"{topic}[{partition}]: the ledger ends at {at}, the topic at {mark.high}"

    @contextmanager
    def _sending(self, topic: str) -> Iterator[Callable[..., None]]:
        """Give what sends a record, and make sure that Kafka has taken all of them."""
        answers: list[KafkaError | None] = []
        producer = idempotent_producer(self.settings)

        def send(**record: Any) -> None:
            while True:
                try:
                    return producer.produce(topic, on_delivery=lambda error, _: answers.append(error), **record)
                except BufferError:  # the client holds as many as it may
                    producer.poll(0.1)

        yield send
        assert producer.flush(_ANSWER_S) == 0, f"Kafka has not taken all records in {_ANSWER_S:g} s"
        assert set(answers) <= {None}, answers


def read_topic(settings: Settings, *topics: str) -> list[FoundRecord]:
    """Return every committed record of some topics, in order of topic, partition and offset."""
    wait_until_settled(settings, topics)
    broker = Broker(settings)
    wanted = [(topic, partition) for topic in topics for partition in broker.identify(topic).partitions]
    with closing(range_consumer(settings, "test-reader")) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in wanted])
        records = list(_until_end(consumer, set(wanted)))
    records.sort(key=lambda record: (record.topic, record.partition, record.offset))
    return [FoundRecord(_doc_id(record), record, _stream(record)) for record in records]


def _until_end(consumer: Consumer, reading: set[tuple[str | None, int | None]]) -> Iterator[InputRecord]:
    while reading:
        message = consumer.poll(_ANSWER_S)
        assert message is not None, f"no answer from Kafka within {_ANSWER_S:g} s"
        error = message.error()
        if error is None:
            yield to_record(message)
        elif is_end_of_partition(error):
            reading.discard((message.topic(), message.partition()))
        else:
            assert is_passing(error), error


def _stream(record: InputRecord) -> PipeStream:
    stream = PipeStream()
    if record.value:
        # A dead letter may hold anything.
        with suppress(DecodeError):
            stream.ParseFromString(record.value)
    return stream


def _doc_id(record: InputRecord) -> str:
    stream = _stream(record)
    return stream.document_ref.doc_id or stream.document.doc_id or (record.key or b"").decode("utf-8", "replace")

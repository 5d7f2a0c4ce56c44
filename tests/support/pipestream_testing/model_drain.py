"""A range task on the model broker: what ``pipestream.drain.task`` does, without documents, modules and objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipestream.drain.offset_metadata import read_metadata, write_metadata
from pipestream.drain.range_task import RangeOutcome, RangeTask, Runner
from pipestream.engine.dead_letter_record import REPLAYS, dead_letter
from pipestream.errors import ModuleFailed, ProducerFenced
from pipestream.kafka.ranges import OffsetRange
from pipestream.kafka.records import InputRecord, OutputRecord, header
from pipestream.kafka.writer import Progress
from pipestream.ledger import Tally
from pipestream.topic_names import datasource_of, intake_dead_letter_topic
from pipestream_testing.broker import ModelBroker

RUN, ORIGIN = "model.run", "model.origin"
"""Headers of what comes out: the run that it came out of, and the ``PARTITION/OFFSET`` that it was made from."""


def model_runner(broker: ModelBroker, out_topic: str, chunk_records: int) -> Runner:
    """Return a runner that drains on the model.

    A record's value says how often its document must be replayed before it passes; until then it fails, and becomes
    a dead letter in the same transaction as the outputs and offsets of its chunk.
    """

    def runner(tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
        for task in tasks:
            graph_id = task.lane.partition("@")[0]
            for offsets in task.ranges:
                drain = _RangeDrain(broker, out_topic, offsets, task.group, task.run_id, graph_id, task.node_id)
                yield drain.run(chunk_records, task.transactional_ids)

    return runner


def drain_without_ledger(
    broker: ModelBroker, topic: str, out_topic: str, *, run_id: str, budget: int, chunk_records: int
) -> None:
    """Drain up to ``budget`` offsets of each partition, planned by nothing but what the broker says."""
    group = "without-ledger"
    for partition, marks in broker.watermarks(topic, broker.identify(topic).partitions).items():
        done = broker.committed(group, topic, [partition]).get(partition)
        start = done.offset if done else marks.low
        if start < marks.high:
            offsets = OffsetRange(topic, partition, start, min(marks.high, start + budget))
            drain = _RangeDrain(broker, out_topic, offsets, group, run_id, graph_id="", node_id="")
            drain.run(chunk_records, [f"{group}/{topic}/{partition}"])


def is_poison(record: InputRecord) -> bool:
    """Tell whether a record fails, as often as it has been replayed by now."""
    return int(header(record.headers, REPLAYS) or 0) < int(record.value or b"0")


@dataclass(slots=True)
class _RangeDrain:
    broker: ModelBroker
    out_topic: str
    offsets: OffsetRange
    group: str
    run_id: str
    graph_id: str
    node_id: str
    position: int = 0
    tally: Tally | None = field(default_factory=Tally)

    def run(self, chunk_records: int, transactional_ids: Sequence[str]) -> RangeOutcome:
        error: ProducerFenced | None = None
        self.position = self.offsets.start
        try:
            self._drain(chunk_records, transactional_ids)
        except ProducerFenced as lost:
            error = lost
        return RangeOutcome(
            topic=self.offsets.topic,
            partition=self.offsets.partition,
            start=self.offsets.start,
            end=min(self.position, self.offsets.end),
            tally=self.tally,
            seconds=0.01,
            error=str(error) if error else "",
            transient=error is not None,
        )

    def _drain(self, chunk_records: int, transactional_ids: Sequence[str]) -> None:
        topic, partition = self.offsets.topic, self.offsets.partition
        self.broker.fence(topic, transactional_ids[1:])
        writer = self.broker.start_writer(transactional_ids[0], topic)
        done = self.broker.committed(self.group, topic, [partition]).get(partition)
        if done and done.offset > self.offsets.start:
            self.position = done.offset
            self.tally = read_metadata(done.metadata, self.offsets.start) if done.offset <= self.offsets.end else None
        if self.position >= self.offsets.end:
            return
        reader = self.broker.open_reader(self.group, self.offsets)
        for records, end in reader.chunks(self.position, chunk_records):
            outputs = [self._process(record) for record in records]
            tally = None if self.tally is None else self.tally + self._count(outputs)
            note = write_metadata(self.offsets.start, tally) if tally else ""
            writer.commit(outputs, [Progress(partition, end, note)], reader.group_metadata())
            self.position, self.tally = end, tally

    def _process(self, record: InputRecord) -> OutputRecord:
        if not is_poison(record):
            headers = ((RUN, self.run_id.encode()), (ORIGIN, f"{record.partition}/{record.offset}".encode()))
            return OutputRecord(self.out_topic, record.key, record.value, headers)
        return dead_letter(
            record,
            ModuleFailed("this document is poison"),
            topic=intake_dead_letter_topic(datasource_of(self.offsets.topic)),
            node_id=self.node_id,
            attempts=1,
            run_id=self.run_id,
            graph_id=self.graph_id,
            graph_hash="",
            now=0.0,
        )

    def _count(self, outputs: Sequence[OutputRecord]) -> Tally:
        passed = sum(output.topic == self.out_topic for output in outputs)
        return Tally(len(outputs), {"happy-end": passed} if passed else {}, len(outputs) - passed)

"""The clients of the model broker: a producer with transactions, a reader of ranges, the log of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pipestream.dead_letters.decisions import ActionPlan, Decisions, add_up
from pipestream.errors import ProducerFenced, RecordTooLarge
from pipestream.kafka.broker import Committed
from pipestream.kafka.records import InputRecord, OffsetRange, OutputRecord, Partition
from pipestream.kafka.writer import Progress

if TYPE_CHECKING:
    from pipestream_testing.broker import ModelBroker


@dataclass(frozen=True, slots=True)
class _Client:
    """Leaving it does nothing: a process that dies closes nothing either, and what it left open stays so."""

    broker: ModelBroker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True, slots=True)
class ModelWriter(_Client):
    """Like ``TransactionalWriter``: once a newer one has started under its id, it can commit nothing."""

    transactional_id: str
    topic: str
    epoch: int

    def commit(self, outputs: Sequence[OutputRecord], progress: Iterable[Progress], group_metadata: Any) -> None:
        self.broker.step()
        for index, output in enumerate(outputs):
            limit = self.broker.most_bytes.get(output.topic, output.size_bytes)
            if output.size_bytes > limit:
                raise RecordTooLarge(self.topic, output.topic, output.size_bytes, limit, index)
        with self.broker.guard:
            self._refuse_if_fenced()
            transaction = self.broker.begin(self.transactional_id)
            for output in outputs:
                self.broker.append(output, transaction=transaction)
        self.broker.step()
        with self.broker.guard:
            self._refuse_if_fenced()
            self.broker.commit(self.transactional_id, group_metadata, self.topic, progress)

    def _refuse_if_fenced(self) -> None:
        if self.broker.epochs[self.transactional_id] != self.epoch:
            raise ProducerFenced(self.topic)


@dataclass(frozen=True, slots=True)
class ModelReader(_Client):
    """Like ``RangeReader``: the last chunk may be empty, and ends where the ranges do."""

    group: str
    ranges: tuple[OffsetRange, ...]

    def committed(self) -> dict[Partition, Committed]:
        (topic,) = {each.topic for each in self.ranges}
        found = self.broker.committed(self.group, topic, [each.partition for each in self.ranges])
        return {(topic, partition): committed for partition, committed in found.items()}

    def stop(self) -> None:
        """Nothing to do: it never waits."""

    def group_metadata(self) -> Any:
        return self.group

    def chunks(
        self, starts: Mapping[Partition, int], size: int
    ) -> Iterator[tuple[list[InputRecord], dict[Partition, int]]]:
        """Yield the ranges one after the other: all records of the model have the same time."""
        ends = {(each.topic, each.partition): each.end for each in self.ranges}
        starts = {(each.topic, each.partition): each.start for each in self.ranges} | dict(starts)
        if all(starts[place] >= end for place, end in ends.items()):
            return
        self.broker.step()
        chunk: list[InputRecord] = []
        left = [record for place, end in ends.items() for record in self.broker.records(*place, starts[place], end)]
        for number, record in enumerate(left, 1):
            chunk.append(record)
            is_last = number == len(left) and record.offset + 1 == ends[record.topic, record.partition]
            if len(chunk) == size and not is_last:
                yield chunk, {(each.topic, each.partition): each.offset + 1 for each in chunk}
                self.broker.step()
                chunk = []
        yield chunk, ends


@dataclass(frozen=True, slots=True)
class ModelLog:
    """Like ``DecisionLog``, on a topic of the model."""

    broker: ModelBroker
    topic: str

    def ensure(self) -> None:
        self.broker.create(self.topic, 1)

    def read(self) -> Decisions:
        """Return what is decided; an open transaction holds back whatever lies behind it."""
        if self.topic not in self.broker.logs:
            return Decisions()
        end = self.broker.watermarks(self.topic, [0])[0].high
        return add_up(self.broker.records(self.topic, 0, 0, end))

    def read_settled(self) -> Decisions:
        """Return all that is decided. Whoever holds it back gets a moment to end; then the broker ends it for him."""
        written = len(self.broker.logs[self.topic][0])
        if self.broker.watermarks(self.topic, [0])[0].high < written:
            self.broker.step()
            if self.broker.watermarks(self.topic, [0])[0].high < written:
                self.broker.time_out()
        end = self.broker.watermarks(self.topic, [0])[0].high
        return add_up(self.broker.records(self.topic, 0, 0, end))

    def write_plan(self, plan: ActionPlan) -> None:
        self.broker.step()
        self.broker.append(OutputRecord(self.topic, plan.action_id.encode(), plan.encode()))

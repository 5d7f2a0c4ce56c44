"""A model of the broker, small enough to crash thousands of times: topics, committed offsets, transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipestream.drain.broker import Committed, TopicIdentity
from pipestream.drain.model import RangeOutcome, RangeTask
from pipestream.drain.note import read_note, write_note
from pipestream.ledger import Tally
from pipestream.offsets.ranges import OffsetRange, Watermarks


class Crash(BaseException):
    """The process died here. Not an Exception, so that nothing on the way handles it."""


@dataclass(slots=True)
class ModelBroker:
    """Answers a run's questions like ``pipestream.drain.broker.Broker``, and runs its tasks in transactions."""

    partitions: int = 2
    topic_id: str = "model-1"
    ends: dict[int, int] = field(default_factory=dict)
    offsets: dict[tuple[str, int], Committed] = field(default_factory=dict)
    delivered: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    """Per consumer group, how often each (partition, offset) came out."""

    def produce(self, partition: int, count: int) -> None:
        self.ends[partition] = self.ends.get(partition, 0) + count

    def forget_offsets(self, group: str) -> None:
        """Do what Kafka does to a group that was quiet for a week."""
        self.offsets = {key: value for key, value in self.offsets.items() if key[0] != group}

    def identify(self, topic: str) -> TopicIdentity:  # noqa: ARG002 - the model has one topic
        return TopicIdentity(self.topic_id, tuple(range(self.partitions)))

    def watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:  # noqa: ARG002
        return {partition: Watermarks(0, self.ends.get(partition, 0)) for partition in partitions}

    settled_watermarks = watermarks

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, Committed]:  # noqa: ARG002
        return {p: self.offsets[group, p] for p in partitions if (group, p) in self.offsets}

    def spread(self, chunk: int, crash: Callable[[], bool]) -> Callable[[Sequence[RangeTask]], Iterator[RangeOutcome]]:
        """Return a spread that drains in chunks; where ``crash`` says so, it dies before or after a transaction."""

        def run(tasks: Sequence[RangeTask]) -> Iterator[RangeOutcome]:
            for task in tasks:
                for offsets in task.ranges:
                    yield self._drain(task, offsets, chunk, crash)

        return run

    def _drain(self, task: RangeTask, offsets: OffsetRange, chunk: int, crash: Callable[[], bool]) -> RangeOutcome:
        done = self.offsets.get((task.group, offsets.partition))
        position: int = offsets.start
        tally: Tally | None = Tally()
        if done and done.offset > offsets.start:
            position = done.offset
            tally = read_note(done.note, offsets.start) if position <= offsets.end else None
        while position < offsets.end:
            end = min(position + chunk, offsets.end)
            if crash():
                raise Crash
            tally = None if tally is None else tally + Tally(records=end - position)
            out = self.delivered.setdefault(task.group, Counter())
            out.update((offsets.partition, offset) for offset in range(position, end))
            note = "" if tally is None else write_note(offsets.start, tally)
            self.offsets[task.group, offsets.partition] = Committed(end, note)
            position = end
            if crash():
                raise Crash
        return RangeOutcome(offsets.topic, offsets.partition, offsets.start, min(position, offsets.end), tally, 0.01)

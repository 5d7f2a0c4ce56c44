"""A model of the broker, small enough to crash thousands of times: topics, transactions, fencing, committed offsets.

It keeps what decides whether a record is lost or doubled, as Kafka does it. Records of an open transaction take up
offsets and hold back every committed reader; a commit or an abort writes a marker, which takes up an offset too. A
producer that starts under a transactional id aborts what the one before it left open, and fences it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from threading import RLock
from zlib import crc32

from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.errors import TopicMissing
from pipestream.kafka.broker import Committed, TopicIdentity
from pipestream.kafka.records import InputRecord, OffsetRange, OutputRecord, Watermarks
from pipestream.kafka.writer import Progress
from pipestream_testing.broker_clients import ModelLog, ModelReader, ModelWriter


class State(Enum):
    """What has become of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """Records of any partitions that are all there or all not."""

    state: State = State.OPEN
    partitions: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Written:
    """What lies at an offset: a record, or the marker that ends a transaction."""

    record: OutputRecord | None
    transaction: Transaction | None = None

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.state is State.OPEN

    @property
    def is_readable(self) -> bool:
        """Tell whether a committed reader gets a record here."""
        return self.record is not None and (self.transaction is None or self.transaction.state is State.COMMITTED)


@dataclass(slots=True)
class ModelBroker:
    """Answers like ``pipestream.kafka.broker.Broker``, and like ``LetterBroker`` to tasks and actions."""

    step: Callable[[], None] = lambda: None
    """Called before everything that a process does to the broker. It may raise, or let other processes go first."""
    logs: dict[str, list[list[Written]]] = field(default_factory=dict)
    """What each topic's partitions hold."""
    offsets: dict[tuple[str, str, int], Committed] = field(default_factory=dict)
    """By group, topic and partition."""
    epochs: Counter[str] = field(default_factory=Counter)
    """How many producers have started under a transactional id; all but the last are fenced."""
    open: dict[str, Transaction] = field(default_factory=dict)
    most_bytes: dict[str, int] = field(default_factory=dict)
    """The largest record that a topic takes; one that is not here takes any."""
    guard: RLock = field(default_factory=RLock)
    """Held for everything that the real broker does at once: processes may have several threads."""

    def create(self, topic: str, partitions: int) -> None:
        self.logs.setdefault(topic, [[] for _ in range(partitions)])

    def append(
        self, record: OutputRecord, partition: int | None = None, transaction: Transaction | None = None
    ) -> None:
        """Add a record to its topic. Unless a partition is named, its key decides, so a replay may change it."""
        log = self.logs[record.topic]
        chosen = crc32(record.key or b"") % len(log) if partition is None else partition
        log[chosen].append(Written(record, transaction))
        if transaction:
            transaction.partitions.add((record.topic, chosen))

    def records(self, topic: str, partition: int, start: int = 0, end: int | None = None) -> Iterator[InputRecord]:
        """Yield the records between two offsets that a committed reader gets, wherever the last stable offset is."""
        for offset, written in enumerate(self.logs[topic][partition][start:end], start):
            if written.is_readable and written.record:
                found = written.record
                yield InputRecord(topic, partition, offset, 0, found.key, found.value, found.headers)

    def all_records(self, topic: str) -> list[InputRecord]:
        """Return the committed records of all partitions."""
        return [record for p in range(len(self.logs[topic])) for record in self.records(topic, p)]

    # What a run asks.

    def identify(self, topic: str) -> TopicIdentity:
        if topic not in self.logs:
            raise TopicMissing(topic)
        return TopicIdentity(f"id-of-{topic}", tuple(range(len(self.logs[topic]))))

    def missing(self, topics: Iterable[str]) -> list[str]:
        return [topic for topic in topics if topic not in self.logs]

    def watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, Watermarks]:
        """Return what a committed reader may read: up to the first record of a transaction that is open."""
        self.step()
        return {p: Watermarks(0, self._last_stable(self.logs[topic][p])) for p in partitions}

    settled_watermarks = watermarks

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, Committed]:
        self.step()
        return {p: self.offsets[group, topic, p] for p in partitions if (group, topic, p) in self.offsets}

    def fence(self, topic: str, transactional_ids: Iterable[str]) -> None:
        """Abort what was left open under the ids, and let nobody who writes under them now commit anything."""
        self.step()
        with self.guard:
            for transactional_id in transactional_ids:
                self._fence(transactional_id)

    def forget_offsets(self, group: str) -> None:
        """Do what Kafka does to a group that was quiet for a week."""
        self.offsets = {key: value for key, value in self.offsets.items() if key[0] != group}

    # What a task asks.

    def start_writer(self, transactional_ids: Sequence[str], topic: str) -> ModelWriter:
        """Fence whoever writes under the ids, its own first, and abort what it left open."""
        own, *others = transactional_ids
        self.step()
        with self.guard:
            self._fence(own)
            writer = ModelWriter(self, own, topic, self.epochs[own])
        for other in others:
            self.fence(topic, [other])
        return writer

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> ModelReader:
        return ModelReader(self, group, tuple(ranges))

    # What an action on dead letters asks besides.

    @property
    def log(self) -> ModelLog:
        return ModelLog(self, DECISIONS_TOPIC)

    def topics(self) -> Collection[str]:
        return self.logs

    # What a producer does.

    def begin(self, transactional_id: str) -> Transaction:
        assert transactional_id not in self.open, "one producer has one transaction at a time"
        return self.open.setdefault(transactional_id, Transaction())

    def commit(self, transactional_id: str, group: str, topic: str, progress: Iterable[Progress]) -> None:
        """Commit the open transaction: its records show, and the group's offsets move."""
        self._end(transactional_id, State.COMMITTED)
        for each in progress:
            self.offsets[group, topic, each.partition] = Committed(each.offset, each.metadata)

    def time_out(self) -> None:
        """Abort and fence, as a broker does after a minute, whoever has left a transaction open."""
        with self.guard:
            for transactional_id in list(self.open):
                self._fence(transactional_id)

    def _fence(self, transactional_id: str) -> None:
        self._end(transactional_id, State.ABORTED)
        self.epochs[transactional_id] += 1

    def _end(self, transactional_id: str, state: State) -> None:
        transaction = self.open.pop(transactional_id, None)
        if transaction:
            transaction.state = state
            for topic, partition in transaction.partitions:
                self.logs[topic][partition].append(Written(None, transaction))

    @staticmethod
    def _last_stable(log: list[Written]) -> int:
        return next((offset for offset, written in enumerate(log) if written.is_open), len(log))

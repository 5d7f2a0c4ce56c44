"""What an action on dead letters asks of Kafka.

The protocols say all of it, so that ``pipestream_testing`` can run the same action on a model of the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pipestream.dead_letters.decisions import ActionPlan, Decisions
from pipestream.dead_letters.log import DecisionLog
from pipestream.kafka.broker import Broker, TopicIdentity
from pipestream.kafka.ranges import OffsetRange, Watermarks
from pipestream.kafka.reader import RangeReader
from pipestream.kafka.records import InputRecord, OutputRecord
from pipestream.kafka.writer import Progress, TransactionalWriter
from pipestream.settings import Settings


class Log(Protocol):
    """Where decisions are kept: see ``DecisionLog``."""

    def ensure(self) -> None: ...

    def read(self) -> Decisions: ...

    def read_settled(self) -> Decisions: ...

    def write_plan(self, plan: ActionPlan) -> None: ...


class Writer(Protocol):
    """Whoever may write for a partition until another one starts: see ``TransactionalWriter``."""

    def commit(self, outputs: Sequence[OutputRecord], progress: Iterable[Progress], group_metadata: Any) -> None: ...


class Reader(Protocol):
    """The committed records of a range: see ``RangeReader``."""

    def chunks(self, start: int, size: int) -> Iterator[tuple[list[InputRecord], int]]: ...

    def group_metadata(self) -> Any: ...


class LetterBroker(Protocol):
    """Kafka, as far as an action on dead letters needs it."""

    @property
    def log(self) -> Log: ...

    def topics(self) -> Collection[str]:
        """Return the names of all topics."""

    def identify(self, topic: str) -> TopicIdentity: ...

    def watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, Watermarks]: ...

    def settled_watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, Watermarks]: ...

    def start_writer(self, transactional_id: str, topic: str) -> AbstractContextManager[Writer]:
        """Start the one producer that may write under an id; it fences every earlier one."""

    def open_reader(self, group: str, offsets: OffsetRange) -> AbstractContextManager[Reader]: ...


class KafkaLetterBroker(Broker):
    """The broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.log = DecisionLog(settings)

    def topics(self) -> Collection[str]:
        return self.existing()

    def start_writer(self, transactional_id: str, topic: str) -> TransactionalWriter:
        return TransactionalWriter(self._settings, [transactional_id], topic)

    def open_reader(self, group: str, offsets: OffsetRange) -> RangeReader:
        return RangeReader(self._settings, group, offsets)

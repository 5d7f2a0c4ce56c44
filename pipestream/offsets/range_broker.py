"""What a task asks of Kafka while it works: read ranges, and write in transactions.

The protocols say all of it, so that ``pipestream_testing`` can run the same tasks on a model of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pipestream.kafka.broker import Committed
from pipestream.kafka.ranges import OffsetRange, Partition
from pipestream.kafka.records import InputRecord, OutputRecord
from pipestream.kafka.writer import Progress, TransactionalWriter
from pipestream.offsets.range_reader import RangeReader
from pipestream.settings import Settings


class Writer(Protocol):
    """The one that may write for its partitions until another one starts: see ``TransactionalWriter``."""

    def commit(self, outputs: Sequence[OutputRecord], progress: Iterable[Progress], group_metadata: Any) -> None: ...


class Reader(Protocol):
    """The committed records of some ranges: see ``RangeReader``."""

    def committed(self) -> Mapping[Partition, Committed]: ...

    def chunks(
        self, starts: Mapping[Partition, int], size: int
    ) -> Iterator[tuple[list[InputRecord], dict[Partition, int]]]: ...

    def group_metadata(self) -> Any: ...


class RangeBroker(Protocol):
    """Kafka, as far as a task needs it."""

    def start_writer(self, transactional_ids: Sequence[str], topic: str) -> AbstractContextManager[Writer]:
        """Fence whoever writes under any of the ids, and start the one producer that may write under the first."""

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> AbstractContextManager[Reader]: ...


class KafkaRangeBroker:
    """The broker of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def start_writer(self, transactional_ids: Sequence[str], topic: str) -> TransactionalWriter:
        return TransactionalWriter(self._settings, transactional_ids, topic)

    def open_reader(self, group: str, ranges: Sequence[OffsetRange]) -> RangeReader:
        return RangeReader(self._settings, group, ranges)

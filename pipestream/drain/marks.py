"""The mark a task leaves before it works on a chunk, so that the next try knows where an earlier one died.

A module can end the process it runs in: a crash in native code, ``os._exit``, running out of memory. Nothing in that
process can make a dead letter of the document then, and every further try would die at it again. So a task first
leaves a mark in the object store that says where the chunk starts. A try that finds such a mark at its own position
knows that one before it died inside that chunk, and goes through it carefully: one record at a time, naming each in
the mark before it begins. A record at which tries died often enough is given up.

A mark is advice. Positions come from Kafka alone: a mark that is lost costs one more death, and one that is left
over a slower chunk.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from pipestream.drain.range_task import RangeTask
from pipestream.errors import DocumentMissing, Overtaken, StoreRefused, StoreUnavailable
from pipestream.ids import check_key_part
from pipestream.kafka.records import InputRecord
from pipestream.objects.store import ObjectStore

log = logging.getLogger(__name__)

ROOT = "drains"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a try was in one partition."""

    start: int
    """Where its chunk starts: the offset that was committed then."""
    graph_hash: str
    at: int | None = None
    """The record it was at, in a careful pass."""
    deaths: Mapping[int, int] = field(default_factory=dict)
    """How many tries died at which record."""

    def encode(self) -> bytes:
        deaths = {str(offset): count for offset, count in self.deaths.items()}
        values = {"start": self.start, "graph_hash": self.graph_hash, "at": self.at, "deaths": deaths}
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Mark:
        """Read a mark.

        :raises ValueError: this is none.
        """
        try:
            values = json.loads(data)
            deaths = {int(offset): int(count) for offset, count in values["deaths"].items()}
            at = values["at"]
            return cls(int(values["start"]), str(values["graph_hash"]), None if at is None else int(at), deaths)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a mark: {error!r}") from error

    def taken_up(self, graph_hash: str) -> Mark:
        """Return the mark as the next try knows it: whoever left it has died where it says.

        Deaths under another version of the graph tell nothing about this one, which may be the mended one.
        """
        if graph_hash != self.graph_hash:
            return Mark(self.start, graph_hash)
        if self.at is None:
            return self
        return replace(self, at=None, deaths={**self.deaths, self.at: self.deaths.get(self.at, 0) + 1})


def mark_key(lane: str, topic_id: str, partition: int) -> str:
    """Return where the mark of a partition lies.

    Not below the topic's name, which may be too long for a key: its id says more, and is base64 of 22 characters.

    :raises IdInvalid: a part cannot be in a key.
    """
    topic = check_key_part(topic_id.replace("/", "_"), "topic id")
    return f"{ROOT}/{check_key_part(lane, 'lane')}/{topic}/{partition}.json"


class Marks:
    """The marks of a task's partitions. A try that ends in order takes back what it has marked."""

    def __init__(
        self,
        store: ObjectStore,
        task: RangeTask,
        graph_hash: str,
        patiently: Callable[[Callable[[], Any]], Any],
    ) -> None:
        """
        :param patiently: makes a call to the store, and repeats it while the store does not answer.
        """
        self._store = store
        self._graph_hash = graph_hash
        self._patiently = patiently
        self._keys = {partition: mark_key(task.lane, task.topic_id, partition) for partition, _, _ in task.offsets}
        self._found: dict[int, Mark] = {}
        self._written: set[int] = set()
        self._named: tuple[int, Mark] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, Overtaken):
            return  # they are the newer run's now
        try:
            self._take_back()
        except (StoreUnavailable, StoreRefused) as trouble:
            # Left over they are harmless, and the error that ended the try matters more.
            log.warning("marks of %s stay: %s", ", ".join(self._keys.values()), trouble)

    def read(self, positions: Mapping[int, int]) -> None:
        """Look for marks of tries that died where this one starts."""
        found = self._patiently(partial(self._store.get_many, list(self._keys.values())))
        for (partition, key), data in zip(self._keys.items(), found, strict=True):
            if isinstance(data, DocumentMissing):
                continue
            self._written.add(partition)
            try:
                mark = Mark.decode(data)
            except ValueError as error:
                log.warning("%s: %s; going on without it", key, error)
                continue
            if mark.start == positions[partition]:
                self._found[partition] = mark.taken_up(self._graph_hash)

    def are_suspect(self, partitions: Iterable[int]) -> bool:
        """Tell whether an earlier try died in the chunk that these partitions go on with."""
        return any(partition in self._found for partition in partitions)

    def deaths(self, record: InputRecord) -> int:
        """Return how many tries died at a record, while it was the only one they worked on."""
        found = self._found.get(record.partition)
        return found.deaths.get(record.offset, 0) if found else 0

    def begin(self, starts: Mapping[int, int]) -> None:
        """Mark a chunk, by where it starts in each partition that it has records of."""
        self._write({partition: Mark(start, self._graph_hash) for partition, start in starts.items()})

    def approach(self, record: InputRecord, start: int) -> None:
        """Name the record that is worked on next, in a chunk that starts there in the record's partition."""
        partition = record.partition
        if self._named is not None and self._named[0] != partition:
            self.leave()
        mark = self._found.get(partition) or Mark(start, self._graph_hash)
        self._write({partition: replace(mark, at=record.offset)})
        self._named = partition, mark

    def leave(self) -> None:
        """Name no record any more: what happens from now on is no record's doing."""
        if self._named is not None:
            partition, mark = self._named
            self._write({partition: mark})
            self._named = None

    def passed(self, partitions: Iterable[int]) -> None:
        """Forget what was found: the chunk is committed, so its marks lie behind every position."""
        for partition in partitions:
            self._found.pop(partition, None)

    def _write(self, marks: Mapping[int, Mark]) -> None:
        items = [(self._keys[partition], mark.encode()) for partition, mark in marks.items()]
        self._written |= marks.keys()
        self._patiently(partial(self._store.put_many, items))

    def _take_back(self) -> None:
        """Keep only what tells of deaths in a chunk that is not done yet."""
        self._store.put_many([(self._keys[p], mark.encode()) for p, mark in self._found.items()])
        for partition in self._written - self._found.keys():
            self._store.delete(self._keys[partition])

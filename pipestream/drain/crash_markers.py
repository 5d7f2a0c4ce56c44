"""The crash marker that a task leaves before it works on a chunk, so that the next try knows where an earlier one died.

A module can end the process it runs in: a crash in native code, ``os._exit``, running out of memory. Nothing in that
process can make a dead letter of the document then, and every further try would die at it again. So a task first
leaves a marker in the object store that says where the chunk starts. A try that finds such a marker at its own position
knows that one before it died inside that chunk, and goes through it carefully: one record at a time, naming each in
the marker before it begins. A record at which tries died often enough is given up.

A marker is advice. Positions come from Kafka alone: a marker that is lost costs one more death, and one that is left
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
class CrashMarker:
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
    def decode(cls, data: bytes) -> CrashMarker:
        """Read a marker.

        :raises ValueError: this is none.
        """
        try:
            values = json.loads(data)
            deaths = {int(offset): int(count) for offset, count in values["deaths"].items()}
            at = values["at"]
            return cls(int(values["start"]), str(values["graph_hash"]), None if at is None else int(at), deaths)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a marker: {error!r}") from error

    def resumed(self, graph_hash: str) -> CrashMarker:
        """Return the marker as the next try knows it: the try that left it died where it says.

        Deaths under another version of the graph tell nothing about this one, which may be the fixed one.
        """
        if graph_hash != self.graph_hash:
            return CrashMarker(self.start, graph_hash)
        if self.at is None:
            return self
        return replace(self, at=None, deaths={**self.deaths, self.at: self.deaths.get(self.at, 0) + 1})


def marker_key(lane: str, topic_id: str, partition: int) -> str:
    """Return where the marker of a partition lies.

    Not below the topic's name, which may be too long for a key: its id says more, and is base64 of 22 characters.

    :raises IdInvalid: a part cannot be in a key.
    """
    topic = check_key_part(topic_id.replace("/", "_"), "topic id")
    return f"{ROOT}/{check_key_part(lane, 'lane')}/{topic}/{partition}.json"


class CrashMarkers:
    """The markers of a task's partitions. A try that ends in order takes back what it has marked."""

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
        self._keys = {partition: marker_key(task.lane, task.topic_id, partition) for partition, _, _ in task.offsets}
        self._found: dict[int, CrashMarker] = {}
        self._written: set[int] = set()
        self._named: tuple[int, CrashMarker] | None = None

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
            log.warning("markers of %s stay: %s", ", ".join(self._keys.values()), trouble)

    def read(self, positions: Mapping[int, int]) -> None:
        """Look for markers of tries that died where this one starts."""
        found = self._patiently(partial(self._store.get_many, list(self._keys.values())))
        for (partition, key), data in zip(self._keys.items(), found, strict=True):
            if isinstance(data, DocumentMissing):
                continue
            self._written.add(partition)
            try:
                marker = CrashMarker.decode(data)
            except ValueError as error:
                log.warning("%s: %s; continuing without it", key, error)
                continue
            if marker.start == positions[partition]:
                self._found[partition] = marker.resumed(self._graph_hash)

    def are_suspect(self, partitions: Iterable[int]) -> bool:
        """Tell whether an earlier try died in the chunk that these partitions continue with."""
        return any(partition in self._found for partition in partitions)

    def deaths(self, record: InputRecord) -> int:
        """Return how many tries died at a record, while it was the only one they worked on."""
        found = self._found.get(record.partition)
        return found.deaths.get(record.offset, 0) if found else 0

    def begin(self, starts: Mapping[int, int]) -> None:
        """Mark a chunk, by where it starts in each partition that it has records of."""
        self._write({partition: CrashMarker(start, self._graph_hash) for partition, start in starts.items()})

    def approach(self, record: InputRecord, start: int) -> None:
        """Name the record that is worked on next, in a chunk that starts there in the record's partition."""
        partition = record.partition
        if self._named is not None and self._named[0] != partition:
            self.leave()
        marker = self._found.get(partition) or CrashMarker(start, self._graph_hash)
        self._write({partition: replace(marker, at=record.offset)})
        self._named = partition, marker

    def leave(self) -> None:
        """Name no record any more: no record causes what happens from now on."""
        if self._named is not None:
            partition, marker = self._named
            self._write({partition: marker})
            self._named = None

    def passed(self, partitions: Iterable[int]) -> None:
        """Forget what was found: the chunk is committed, so its markers lie behind every position."""
        for partition in partitions:
            self._found.pop(partition, None)

    def _write(self, markers: Mapping[int, CrashMarker]) -> None:
        items = [(self._keys[partition], marker.encode()) for partition, marker in markers.items()]
        self._written |= markers.keys()
        self._patiently(partial(self._store.put_many, items))

    def _take_back(self) -> None:
        """Keep only the deaths in a chunk that is not done yet."""
        self._store.put_many([(self._keys[p], marker.encode()) for p, marker in self._found.items()])
        for partition in self._written - self._found.keys():
            self._store.delete(self._keys[partition])

"""The crash marker that a task leaves before it works on a chunk, so that the next try knows where an earlier one died.

A module can end the process it runs in: a crash in native code, ``os._exit``, running out of memory. Nothing in that
process can make a dead letter of the document then, and every further try would die at it again. So a task first
leaves a marker in the object store that says from where to where it works: chunks overlap, so that is from the last
committed offset to the end of the chunk that is hydrated next. A try that finds its own position inside these bounds
knows that one before it died there, and goes through it carefully, without overlap:

1. Chunk by chunk, with the marker saying which chunk is the only one in progress. A try that was killed from outside
   costs no more than that.
2. If a try dies in such a chunk, the next one goes through that chunk one record at a time, naming each in the marker
   before it begins. A record at which tries died often enough is given up.

To halve the chunk until one record is left would need a death for each half, and Spark tries a task four times only.

A marker is advice. Positions come from Kafka alone. A lost marker costs one more death. A leftover marker costs one
slow chunk.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """The offset that was committed then."""
    graph_hash: str
    at: int | None = None
    """The record it was at, in a careful pass."""
    deaths: Mapping[int, int] = field(default_factory=dict)
    """How many tries died at which record."""
    reach: int = 0
    """Where the last chunk ends that it worked on; 0: not known, as in markers of earlier versions."""
    alone: tuple[int, int] | None = None
    """Start and end of the chunk that it worked on, if it worked on no other."""

    def covers(self, position: int) -> bool:
        """Tell whether a try that starts at ``position`` meets what the earlier try worked on."""
        return position == self.start or self.start <= position < self.reach

    def suspects(self, offset: int) -> bool:
        """Tell whether a try died in the chunk of this record alone, or at the record."""
        return offset in self.deaths or (self.alone is not None and self.alone[0] <= offset < self.alone[1])

    def encode(self) -> bytes:
        deaths = {str(offset): count for offset, count in self.deaths.items()}
        values = {
            "start": self.start,
            "graph_hash": self.graph_hash,
            "at": self.at,
            "deaths": deaths,
            "reach": self.reach,
            "alone": self.alone,
        }
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> CrashMarker:
        """Read a marker.

        :raises ValueError: this is none.
        """
        try:
            values = json.loads(data)
            deaths = {int(offset): int(count) for offset, count in values["deaths"].items()}
            at, reach, alone = values["at"], int(values.get("reach", 0)), values.get("alone")
            return cls(
                start=int(values["start"]),
                graph_hash=str(values["graph_hash"]),
                at=None if at is None else int(at),
                deaths=deaths,
                reach=reach,
                alone=None if alone is None else (int(alone[0]), int(alone[1])),
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not a marker: {error!r}") from error

    def resumed(self, graph_hash: str) -> CrashMarker:
        """Return the marker as the next try knows it: the try that left it died where it says.

        Deaths under another version of the graph tell nothing about this one, which may be the fixed one.
        """
        if graph_hash != self.graph_hash:
            return CrashMarker(self.start, graph_hash, reach=self.reach)
        if self.at is None:
            return self
        return replace(self, at=None, deaths={**self.deaths, self.at: self.deaths.get(self.at, 0) + 1})


def marker_key(lane: str, topic_id: str, partition: int, sub_range: int | None = None) -> str:
    """Return where the marker of a partition lies, or of one of the sub-ranges that it is processed in side by side.

    Not below the topic's name, which may be too long for a key: its id says more, and is base64 of 22 characters.

    :raises IdInvalid: a part cannot be in a key.
    """
    topic = check_key_part(topic_id.replace("/", "_"), "topic id")
    name = f"{partition}" if sub_range is None else f"{partition}.{sub_range}"
    return f"{ROOT}/{check_key_part(lane, 'lane')}/{topic}/{name}.json"


def have_died(tasks: Iterable[RangeTask], store: ObjectStore) -> bool:
    """Tell whether an earlier try of whole ranges left a marker, by which somebody may be blamed."""
    keys = [marker_key(task.lane, task.topic_id, each.partition) for task in tasks for each in task.ranges]
    return any(not isinstance(found, DocumentMissing) for found in store.get_many(keys))


class CrashMarkers:
    """The markers of a task's partitions. A try that ends in order takes back what it has marked."""

    def __init__(
        self,
        store: ObjectStore,
        task: RangeTask,
        graph_hash: str,
        patiently: Callable[[Callable[[], Any]], Any],
        sub_range: int | None = None,
    ) -> None:
        """
        :param patiently: makes a call to the store, and repeats it while the store does not answer.
        :param sub_range: the number of the sub-range that is processed; None: whole ranges are.
        """
        self._store = store
        self._graph_hash = graph_hash
        self._patiently = patiently
        self._is_sub_range = sub_range is not None
        self._keys = {p: marker_key(task.lane, task.topic_id, p, sub_range) for p, _, _ in task.offsets}
        self._found: dict[int, CrashMarker] = {}
        self._kept: dict[int, CrashMarker] = {}
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
            if marker.covers(positions[partition]):
                self._found[partition] = marker.resumed(self._graph_hash)

    @property
    def has_suspects(self) -> bool:
        """Whether an earlier try died in what comes next in some partition."""
        return bool(self._found)

    def are_suspect(self, records: Iterable[InputRecord], *, after_one_death: bool = False) -> bool:
        """Tell whether records have to be processed one at a time: a try died while it worked on no others.

        :param after_one_death: also where a try died that worked on several chunks.
        """
        return any(
            after_one_death or self._found[record.partition].suspects(record.offset)
            for record in records
            if record.partition in self._found
        )

    def deaths(self, record: InputRecord) -> int:
        """Return how many tries died at a record, while it was the only one they worked on."""
        found = self._found.get(record.partition)
        return found.deaths.get(record.offset, 0) if found else 0

    def begin(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Mark a chunk before its documents are fetched.

        :param positions: the offsets that are committed by now; chunks before this one may be in progress.
        :param ends: where the chunk ends in each partition that it has records of.
        """
        self._write({p: CrashMarker(positions[p], self._graph_hash, reach=end) for p, end in ends.items()})

    def enter(self, records: Sequence[InputRecord], positions: Mapping[int, int]) -> None:
        """Mark a chunk before its documents are fetched, while nothing else is in progress.

        :param positions: where the chunk starts, or the sub-range that it is a part of.
        """
        bounds: dict[int, tuple[int, int]] = {}
        for record in records:
            first, _ = bounds.get(record.partition, (record.offset, 0))
            bounds[record.partition] = (first, record.offset + 1)
        self._write(
            {
                partition: replace(self._marker(partition, positions[partition], end), alone=(first, end))
                for partition, (first, end) in bounds.items()
            }
        )

    def approach(self, record: InputRecord, start: int) -> None:
        """Name the record that is worked on next, in a chunk that starts there in the record's partition."""
        partition = record.partition
        if self._named is not None and self._named[0] != partition:
            self.leave()
        marker = self._marker(partition, start, record.offset + 1)
        self._write({partition: replace(marker, at=record.offset)})
        self._named = partition, marker

    def leave(self) -> None:
        """Name no record any more: no record causes what happens from now on."""
        if self._named is not None:
            partition, marker = self._named
            self._write({partition: marker})
            self._named = None

    def passed(self, ends: Mapping[int, int]) -> None:
        """Forget what was found before these offsets, which are committed.

        Those of a sub-range are only handed over. Another sub-range may end this process before they are committed, and
        the next try needs to know the deaths again.
        """
        for partition, end in ends.items():
            found = self._found.get(partition)
            if found is not None and end > found.start and end >= found.reach:
                del self._found[partition]
                if self._is_sub_range and found.deaths:
                    self._kept[partition] = found

    @property
    def kept_keys(self) -> list[str]:
        """Return where markers stay until the results of a sub-range are committed. Whoever commits deletes them."""
        return [self._keys[partition] for partition in self._kept]

    def _marker(self, partition: int, start: int, end: int) -> CrashMarker:
        """Return what is known of a partition in which work goes on up to an offset."""
        marker = self._found.get(partition) or CrashMarker(start, self._graph_hash)
        return replace(marker, reach=max(marker.reach, end))

    def _write(self, markers: Mapping[int, CrashMarker]) -> None:
        items = [(self._keys[partition], marker.encode()) for partition, marker in markers.items()]
        self._written |= markers.keys()
        self._patiently(partial(self._store.put_many, items))

    def _take_back(self) -> None:
        """Keep only the deaths in what is not committed yet."""
        left = {**self._kept, **self._found}
        self._store.put_many([(self._keys[p], marker.encode()) for p, marker in left.items()])
        for partition in self._written - left.keys():
            self._store.delete(self._keys[partition])

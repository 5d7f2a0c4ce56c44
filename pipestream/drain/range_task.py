"""Tasks: how the ranges of a slot become tasks, what a task is sent, what it commits, and what comes back.

A task commits metadata with a partition's offset, in the same Kafka transaction. It says where the range began and what
its records became so far. So a task that resumes half a range, or a run that finds a whole one drained but not
recorded, still knows the counts.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pipestream.errors import Concern, PipestreamError
from pipestream.graph.proto import built
from pipestream.kafka.records import OffsetRange
from pipestream.known_fields import check_fields
from pipestream.ledger.entries import Tally
from pipestream.topic_names import datasource_of
from pipestream.version import VERSION

if TYPE_CHECKING:
    from pipestream.drain.request import HeldSlot

# The broker refuses longer ones (offset.metadata.max.bytes, 4096 by default).
_METADATA_LIMIT_BYTES = 4_000
_SAME_VERSION = "install the same version for the driver and the executors, and start a Spark that is kept up again"


@dataclass(frozen=True, slots=True)
class RangeTask:
    """The ranges of one Spark task: one, or all of a topic whose node wants its records in order of time.

    Travels as JSON, so it holds no secret: a task reads its own settings.
    """

    topic: str
    topic_id: str
    offsets: tuple[tuple[int, int, int], ...]
    """Partition, start and end of each range."""
    lane: str
    group: str
    run_id: str
    node_id: str
    datasource_id: str
    accept_failures: bool
    doc_ids: tuple[str, ...]
    is_live: bool
    transactional_ids: tuple[str, ...]
    """The task writes under the first. Under the others, other tasks may be at work on the same partitions, in order of
    time or not: once its own producer has started, the task fences them. Of a window: the ids of all its tasks."""
    graph: str = field(repr=False)
    """The graph's message in base64; it was checked before the plan was made."""
    slot: int = 0
    """Whose lease the task works under: when it is lost, the tasks of this slot are stopped."""
    engine: str = ""
    """The address of an engine that the documents are handed to; empty: the task processes them itself."""
    unrecorded: tuple[tuple[int, int, str], ...] = ()
    """Of a stream: partition, start and tally (as JSON, empty if unknown) of what was drained before a range and is not
    in the ledger yet. The offset metadata counts from there too."""
    window_s: float = 0.0
    """Of a stream: how long the task drains what arrives. Its ranges have no end then. 0: up to their ends."""
    sub_ranges: tuple[tuple[int, int], ...] = ()
    """Start and end of the parts of its one range that other tasks process side by side, in order and without gaps;
    the task itself commits their results. Empty: it processes and commits all of its ranges. See ``sub_ranges.py``."""

    @property
    def is_ordered(self) -> bool:
        """Tell whether the ranges are drained together, in order of time."""
        return self.transactional_ids[0] == ordered_transactional_id(self.group, self.topic)

    @property
    def ranges(self) -> list[OffsetRange]:
        return [OffsetRange(self.topic, *each) for each in self.offsets]

    def refuse(self, error: PipestreamError) -> list[RangeOutcome]:
        """Return the outcomes of a task that could not begin."""
        return [
            RangeOutcome(
                *(self.topic, each.partition, each.start, each.start, None, 0.0),
                error=str(error),
                transient=error.transient,
                concerns=error.concerns,
            )
            for each in self.ranges
        ]

    def to_fields(self) -> dict[str, Any]:
        """Return the task as values that JSON can hold."""
        return _dump(self)

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> RangeTask:
        """Return the task of what ``to_fields`` returned, also if it has been JSON in between.

        :raises OtherVersion: the driver has another version.
        """
        values = _load(cls, values)
        tuples = {name: tuple(values[name]) for name in ("doc_ids", "transactional_ids")}
        pairs = {name: tuple(map(tuple, values[name])) for name in ("offsets", "unrecorded", "sub_ranges")}
        return cls(**{**values, **tuples, **pairs})


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """How far a task got, and what became of the records. ``end`` is where the Kafka transactions end."""

    topic: str
    partition: int
    start: int
    end: int
    tally: Tally | None
    seconds: float
    error: str = ""
    transient: bool = False
    concerns: Concern = Concern.RANGE
    """How much the error affects: this range, or the whole run."""
    busy_s: float = 0.0
    """For how many of the seconds the task had records of this range in hand. A stream records these."""

    def to_json(self) -> str:
        return json.dumps(_dump(self))

    @classmethod
    def from_json(cls, text: str) -> RangeOutcome:
        """Read an outcome.

        :raises OtherVersion: the executor has another version.
        """
        values = _load(cls, json.loads(text))
        tally = values.pop("tally")
        concerns = Concern(values.pop("concerns"))
        return cls(tally=Tally(**tally) if tally else None, concerns=concerns, **values)


def _dump(value: RangeTask | RangeOutcome) -> dict[str, Any]:
    return {**asdict(value), "version": VERSION}


def _load(kind: type[RangeTask | RangeOutcome], dumped: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(dumped)
    writer = values.pop("version", "")
    what = f"the {'task' if kind is RangeTask else 'outcome'} of {values.get('topic')}"
    check_fields(kind, values, what, _SAME_VERSION, writer=writer)
    return values


class RangeFailed(PipestreamError):
    """A task could not finish its range; ``transient`` says whether the same run may be tried again."""

    concerns = Concern.RANGE

    def __init__(self, outcome: RangeOutcome) -> None:
        self.outcome = outcome
        self.transient = outcome.transient
        # A record that stops its task, since nothing else can be done about it, stops the range.
        self.concerns = max(Concern.RANGE, outcome.concerns, key=lambda concern: concern.width)
        super().__init__(f"{outcome.topic}[{outcome.partition}] stopped at {outcome.end}: {outcome.error}")


Runner = Callable[[Sequence[RangeTask]], Iterable[RangeOutcome]]
"""Runs tasks side by side: over Spark, or in threads of this process."""


@runtime_checkable
class ParallelRunner(Protocol):
    """A runner that can say how much it does at once. One that cannot gets one task per partition."""

    def find_task_slots(self) -> int:
        """Return how many tasks run at once."""


def transactional_id(group: str, topic: str, partition: int) -> str:
    """Return the id under which the records of one partition are drained."""
    return f"{group}/{topic}/{partition}"


def ordered_transactional_id(group: str, topic: str) -> str:
    """Return the id under which all partitions of a topic are drained together, in order of time."""
    return f"{group}/{topic}/ordered"


def unordered_ids(group: str, topic: str, partition: int) -> tuple[str, ...]:
    """Return the id under which one partition is drained, and the one that its task fences."""
    return transactional_id(group, topic, partition), ordered_transactional_id(group, topic)


def ordered_ids(group: str, topic: str, partitions: Iterable[int]) -> tuple[str, ...]:
    """Return the id under which a topic is drained in order of time, and those that its task fences.

    :param partitions: all of the topic, not only those that have something to do now: an earlier task may be at work
        on the others.
    """
    return ordered_transactional_id(group, topic), *(transactional_id(group, topic, each) for each in partitions)


def range_tasks(slot: HeldSlot, ranges: Sequence[OffsetRange]) -> list[RangeTask]:
    """Return one task a range; one task for all of them where the node wants its records in order of time."""
    topic = slot.request.topic
    graph = b64encode(built(slot.graph).content).decode()
    if slot.is_ordered:
        return [_task(slot, ranges, ordered_ids(slot.group, topic, slot.identity.partitions), graph)]
    return [_task(slot, [each], unordered_ids(slot.group, topic, each.partition), graph) for each in ranges]


def _task(slot: HeldSlot, ranges: Sequence[OffsetRange], transactional_ids: tuple[str, ...], graph: str) -> RangeTask:
    request = slot.request
    return RangeTask(
        topic=request.topic,
        topic_id=slot.identity.topic_id,
        offsets=tuple((each.partition, each.start, each.end) for each in ranges),
        lane=slot.lane.name,
        group=slot.group,
        run_id=request.run_id,
        node_id=slot.node_id,
        datasource_id=datasource_of(request.topic),
        accept_failures=request.accept_failures,
        doc_ids=slot.lane.doc_ids,
        is_live=slot.lane.is_live,
        transactional_ids=transactional_ids,
        slot=slot.lease.slot,
        graph=graph,
    )


def write_metadata(*counted: tuple[int, Tally | None]) -> str:
    """Return the offset metadata of a partition: what its records became, counted from one offset or from several.

    A run that finds ``G`` ahead of ``L`` counts from ``L``. While a streaming drain waits for its ledger entry to be
    recorded, ``L`` may be the start or the end of that entry, so it counts from both.

    :param counted: each start with what the records since then became, the earliest first; ``None`` if that is unknown.
    """
    full = [_counted_fields(*each) for each in counted]
    # Hundreds of edges do not fit. A crash then loses the counts, and nothing else.
    short = [{"start": start} for start, _ in counted]
    text = _join_fields(full)
    return text if len(text.encode()) <= _METADATA_LIMIT_BYTES else _join_fields(short)


def metadata_start(metadata: str) -> int | None:
    """Return where the range began, if the metadata is ours."""
    found = _split_fields(metadata)
    return found[0][0] if found else None


def read_metadata(metadata: str, start: int) -> Tally | None:
    """Return what the records since ``start`` became, or ``None`` if the metadata does not say."""
    for begin, values in _split_fields(metadata):
        if begin == start and "out" in values:
            return Tally(values["records"], values["out"], values["dead"])
    return None


def _counted_fields(start: int, tally: Tally | None) -> dict[str, Any]:
    if tally is None:
        return {"start": start}
    values = {"start": start, "records": tally.records, "dead": tally.dead_letters}
    return {**values, "out": dict(tally.documents_out)}


def _join_fields(fields: Sequence[dict[str, Any]]) -> str:
    first, *later = fields
    return json.dumps({**first, **({"later": later} if later else {})}, separators=(",", ":"))


def _split_fields(metadata: str) -> list[tuple[int, dict[str, Any]]]:
    """Return each start with its fields; nothing for metadata that is not ours."""
    try:
        values = json.loads(metadata)
        return [(int(each["start"]), each) for each in (values, *values.get("later", ()))]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []

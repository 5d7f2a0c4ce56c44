"""The work of one Spark task, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

from pipestream.errors import Concern, PipestreamError
from pipestream.kafka.ranges import OffsetRange
from pipestream.ledger.entries import Tally


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
    """The task writes under the first. Starting a producer under each of them fences every earlier task that could
    write for these partitions."""
    graph: str = field(repr=False)
    """The graph's message in base64; it was checked before the plan was made."""
    slot: int = 0
    """Whose lease the task works under: when it is lost, the tasks of this slot are stopped."""

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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RangeTask:
        values = json.loads(text)
        tuples = {name: tuple(values[name]) for name in ("doc_ids", "transactional_ids")}
        return cls(**{**values, **tuples, "offsets": tuple(tuple(each) for each in values["offsets"])})


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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RangeOutcome:
        values = json.loads(text)
        tally = values.pop("tally")
        concerns = Concern(values.pop("concerns"))
        return cls(tally=Tally(**tally) if tally else None, concerns=concerns, **values)


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
"""Runs tasks side by side: over Spark, or one after the other in this process."""


def transactional_id(group: str, topic: str, partition: int) -> str:
    """Return the id under which the records of one partition are drained."""
    return f"{group}/{topic}/{partition}"


def ordered_transactional_id(group: str, topic: str) -> str:
    """Return the id under which all partitions of a topic are drained together, in order of time."""
    return f"{group}/{topic}/ordered"

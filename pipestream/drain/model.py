"""The values that pass between a run, its tasks and whoever started it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipestream.drain.backfill import Backfill
from pipestream.errors import PipestreamError
from pipestream.graph.model import Graph
from pipestream.ledger.model import Tally
from pipestream.offsets.ranges import OffsetRange


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """What one run is asked to drain."""

    graph: Graph
    topic: str
    run_id: str
    budget: int
    backfill: Backfill | None = None
    accept_failures: bool = False
    """Write dead letters even if most of a range fails."""
    start_at: str = ""
    """Where to start if the topic has no head yet; empty: where the graph says."""

    @property
    def lane(self) -> str:
        """Return the ledger's name for this reader of the topic."""
        graph_id = self.graph.graph_id
        return f"{graph_id}@{self.backfill.backfill_id}" if self.backfill else graph_id

    def plan_id(self, slot: int) -> str:
        """Return the id of the run's plan: the same for a retry, and for a backfill whichever run goes on with it."""
        return f"{self.lane}|{self.topic}" if self.backfill else f"{self.run_id}|{self.topic}|{slot}"


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
    graph: str = field(repr=False)
    """The graph's message in base64; it was checked before the plan was made."""

    @property
    def ranges(self) -> list[OffsetRange]:
        return [OffsetRange(self.topic, *each) for each in self.offsets]

    @property
    def transactional_ids(self) -> list[str]:
        """Starting a producer under one of these fences every earlier one that drains its partition."""
        return [f"{self.group}/{self.topic}/{partition}" for partition, _, _ in self.offsets]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RangeTask:
        values = json.loads(text)
        offsets = tuple(tuple(each) for each in values["offsets"])
        return cls(**{**values, "doc_ids": tuple(values["doc_ids"]), "offsets": offsets})


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
    error_kind: str = ""
    transient: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RangeOutcome:
        values = json.loads(text)
        tally = values.pop("tally")
        return cls(tally=Tally(**tally) if tally else None, **values)


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What a run did, for whoever started it."""

    status: str
    """``drained``, ``empty`` (nothing was waiting) or ``skipped`` (someone else holds the lease)."""
    topic: str
    reason: str = ""
    ranges: int = 0
    recovered_ranges: int = 0
    records: int = 0
    documents_out: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class RangeFailed(PipestreamError):
    """A task could not finish its range; ``transient`` says whether the same run may be tried again."""

    def __init__(self, outcome: RangeOutcome) -> None:
        self.outcome = outcome
        self.transient = outcome.transient
        super().__init__(f"{outcome.topic}[{outcome.partition}] stopped at {outcome.end}: {outcome.error}")


Spread = Callable[[Sequence[RangeTask]], Iterable[RangeOutcome]]
"""Runs tasks side by side: over Spark, or one after the other in this process."""


def consumer_group(graph: Graph, lane: str) -> str:
    """Return the consumer group whose committed offsets are a lane's ``G``."""
    return f"pipestream.{graph.cluster_id}.{lane}"

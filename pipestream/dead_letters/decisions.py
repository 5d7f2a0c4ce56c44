"""What is decided about dead letters: plans, batches of decisions, and the state they add up to. Pure.

Kafka cannot delete a single record, so it must be recorded that a letter was replayed, quarantined or purged. It is
recorded in one topic, ``dlq-decisions``, **in the same Kafka transaction** as the records that a replay sends. That
alone makes a replay exactly once, and there is no second store to keep consistent:

* A consumer group's offset cannot say which letters a filter skipped, and Kafka forgets the offsets of an inactive
  group. A table in PostgreSQL or Delta could not be part of the transaction and would need reconciling.
* A **batch** names the letters decided in one transaction, and how far its action has read. An action that
  died resumes there; letters that any action has decided are not open for another one.
* A **plan** fixes an action's ranges and filters before its work. The first plan under an id is the one that
  counts; letters that die later lie behind its ranges.

The topic has one partition, so its order is the order of decisions, and the last one about a letter holds. It
holds one record per transaction, not per letter, and is kept forever.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from pipestream.dead_letters.letter import OPEN_STATES, Decision, State
from pipestream.dead_letters.selection import Selection
from pipestream.errors import RecordInvalid, TerminalError, TransientError
from pipestream.kafka.records import InputRecord

DECISIONS_TOPIC = "dlq-decisions"
DEFAULT_MAX_REPLAYS = 3
_VERSION = 1


class ActionConflict(TerminalError):
    """An action's id was used before for something else, or its topic is no longer the one it was planned on."""


class PlannedTwice(TransientError):
    """Another process planned an action under the same id, and its plan came first."""

    def __init__(self, action_id: str) -> None:
        self.action_id = action_id
        super().__init__(f"{action_id} was planned by another process before; run it again to resume that plan")


class Act(Enum):
    """What an operator does with dead letters."""

    REPLAY = "replay"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    PURGE = "purge"

    @property
    def applies_to(self) -> frozenset[State]:
        """Return the states of the letters that it acts on; it skips all others."""
        return _APPLIES_TO[self]

    @property
    def decides(self) -> State:
        return _DECIDES[self]


_APPLIES_TO = {
    Act.REPLAY: OPEN_STATES,
    Act.QUARANTINE: OPEN_STATES,
    Act.RELEASE: frozenset({State.QUARANTINED, State.PURGED}),
    Act.PURGE: OPEN_STATES | {State.QUARANTINED},
}
_DECIDES = {
    Act.REPLAY: State.REPLAYED,
    Act.QUARANTINE: State.QUARANTINED,
    Act.RELEASE: State.RELEASED,
    Act.PURGE: State.PURGED,
}


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """The letters of one partition that were there when the action was planned."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What an action will do. Written before any work, never changed."""

    action_id: str
    act: Act
    topics: tuple[str, ...]
    ranges: tuple[PlannedRange, ...]
    selection: Selection
    limit: int | None
    max_replays: int
    by: str
    planned_at: datetime

    def encode(self) -> bytes:
        return _dump(
            "plan",
            action=self.action_id,
            act=self.act.value,
            topics=self.topics,
            ranges=[[r.topic, r.topic_id, r.partition, r.start, r.end] for r in self.ranges],
            selection=self.selection.to_values(),
            limit=self.limit,
            max_replays=self.max_replays,
            by=self.by,
            at=self.planned_at.isoformat(),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """The decisions of one transaction: ``decided`` holds offsets by state, ``end`` is how far the action has read."""

    action_id: str
    topic: str
    topic_id: str
    partition: int
    end: int
    decided: Mapping[State, tuple[int, ...]]
    decided_at: datetime

    @property
    def count(self) -> int:
        """Return how many letters were decided about."""
        return sum(len(offsets) for offsets in self.decided.values())

    def encode(self) -> bytes:
        return _dump(
            "batch",
            action=self.action_id,
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            end=self.end,
            decided={state.value: to_runs(offsets) for state, offsets in self.decided.items() if offsets},
            at=self.decided_at.isoformat(),
        )


@dataclass(slots=True)
class Decisions:
    """All decisions, added up from the log's records."""

    plans: dict[str, ActionPlan] = field(default_factory=dict)
    progress: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """How far an action has read, by action id, topic id and partition."""
    counts: dict[str, Counter[State]] = field(default_factory=dict)
    """How many letters an action has decided, and how."""
    _letters: dict[tuple[str, int], dict[int, Decision]] = field(default_factory=dict)

    def of_partition(self, topic_id: str, partition: int) -> Mapping[int, Decision]:
        """Return the decisions about the letters of one partition, by offset."""
        return self._letters.get((topic_id, partition), {})

    def remaining(self, plan: ActionPlan) -> list[PlannedRange]:
        """Return the ranges that an action has not read to their end."""
        return [r for r in plan.ranges if self.progress.get((plan.action_id, r.topic_id, r.partition), r.start) < r.end]

    def decided_by(self, action_id: str) -> Counter[State]:
        return self.counts.get(action_id, Counter())

    def add(self, entry: ActionPlan | Batch) -> None:
        if isinstance(entry, ActionPlan):
            self.plans.setdefault(entry.action_id, entry)
            return
        key = (entry.action_id, entry.topic_id, entry.partition)
        self.progress[key] = max(entry.end, self.progress.get(key, 0))
        counts = self.counts.setdefault(entry.action_id, Counter())
        letters = self._letters.setdefault((entry.topic_id, entry.partition), {})
        for state, offsets in entry.decided.items():
            decision = Decision(state, entry.action_id, entry.decided_at)
            letters.update(dict.fromkeys(offsets, decision))
            counts[state] += len(offsets)


def add_up(records: Iterable[InputRecord]) -> Decisions:
    """Return the state that the log's records add up to.

    :raises RecordInvalid: one of them is not ours. It is not skipped: it might be a decision, and a
        letter would be replayed twice.
    """
    decisions = Decisions()
    for record in records:
        decisions.add(_read(record))
    return decisions


def to_runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted offsets as half-open ranges, because the letters of one chunk are mostly next to each other."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
    return runs


def _read(record: InputRecord) -> ActionPlan | Batch:
    try:
        values = json.loads(record.value or b"")
        if values["version"] != _VERSION:
            raise ValueError(f"version {values['version']}")
        return _read_plan(values) if values["kind"] == "plan" else _read_batch(values)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordInvalid(
            f"{record.topic} offset {record.offset} is not a decision about dead letters ({error!r}); was it written "
            f"by another tool, or by a newer version? Nothing is replayed until that is known"
        ) from None


def _read_plan(values: Mapping[str, Any]) -> ActionPlan:
    return ActionPlan(
        action_id=values["action"],
        act=Act(values["act"]),
        topics=tuple(values["topics"]),
        ranges=tuple(PlannedRange(*each) for each in values["ranges"]),
        selection=Selection.from_values(values["selection"]),
        limit=values["limit"],
        max_replays=values["max_replays"],
        by=values["by"],
        planned_at=datetime.fromisoformat(values["at"]),
    )


def _read_batch(values: Mapping[str, Any]) -> Batch:
    return Batch(
        action_id=values["action"],
        topic=values["topic"],
        topic_id=values["topic_id"],
        partition=values["partition"],
        end=values["end"],
        decided={
            State(state): tuple(offset for start, end in runs for offset in range(start, end))
            for state, runs in values["decided"].items()
        },
        decided_at=datetime.fromisoformat(values["at"]),
    )


def _dump(kind: str, **values: Any) -> bytes:
    return json.dumps({"version": _VERSION, "kind": kind, **values}, separators=(",", ":")).encode()

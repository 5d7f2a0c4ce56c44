"""An action on dead letters: what is asked for, what it decides about one letter, what it did. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipestream.dead_letters.decisions import DEFAULT_MAX_REPLAYS, Act, ActionPlan, PlannedRange
from pipestream.dead_letters.letter import DeadLetter, State
from pipestream.dead_letters.selection import EVERYTHING, Selection
from pipestream.engine.dead_letter_record import FIRST_FAILED_AT, FOR_GRAPH, OWN, REPLAYS, original_headers
from pipestream.ids import check_key_part
from pipestream.kafka.records import OutputRecord


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """What an operator asks for. A repeat under the same ``action_id`` resumes the first plan."""

    act: Act
    action_id: str
    topics: tuple[str, ...]
    selection: Selection = EVERYTHING
    limit: int | None = None
    """Most letters to decide about."""
    max_replays: int = DEFAULT_MAX_REPLAYS
    """A letter that was replayed this often is quarantined instead."""
    by: str = ""

    def __post_init__(self) -> None:
        check_key_part(self.action_id, "action id")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be positive, not {self.limit}")
        if self.max_replays < 0:
            raise ValueError(f"max_replays must not be negative, not {self.max_replays}")

    def plan(self, ranges: Iterable[PlannedRange]) -> ActionPlan:
        """Return the plan to do this over ranges, made now."""
        return ActionPlan(
            action_id=self.action_id,
            act=self.act,
            topics=self.topics,
            ranges=tuple(ranges),
            selection=self.selection,
            limit=self.limit,
            max_replays=self.max_replays,
            by=self.by,
            planned_at=datetime.now(UTC),
        )


@dataclass(frozen=True, slots=True)
class ActionReport:
    """What an action did, over all its tries."""

    action_id: str
    act: Act
    status: str
    """``done``, or ``done before`` if the action had been finished and this try did nothing."""
    decided: dict[State, int]
    decided_now: int
    """Letters that this very try decided about; the others were decided by tries before it."""
    sent: dict[str, int] = field(default_factory=dict)
    """Records sent by this try, by topic."""
    left_open: dict[str, int] = field(default_factory=dict)
    """Letters that this try could not send back, by reason. They stay open for another action."""


def replay_record(letter: DeadLetter, topic: str, action_id: str) -> OutputRecord:
    """Return a letter as the record it was: the same key, bytes and headers, and how often it came back."""
    marks = {
        REPLAYS: str(letter.replays + 1),
        FIRST_FAILED_AT: letter.first_failed_at.isoformat(timespec="milliseconds"),
        OWN + "letter": str(letter.letter_id),
        OWN + "replay": action_id,
    }
    if letter.graph_id:
        marks[FOR_GRAPH] = letter.graph_id
    headers = (*original_headers(letter.record.headers), *((name, text.encode()) for name, text in marks.items()))
    return OutputRecord(topic, letter.record.key, letter.record.value, headers)


def decide(letter: DeadLetter, plan: ActionPlan) -> State | None:
    """Return what an action decides about a letter; None if it skips it. Pure."""
    if letter.state not in plan.act.applies_to or not plan.selection.matches(letter):
        return None
    is_capped = letter.replays >= plan.max_replays and letter.state is not State.RELEASED
    return State.QUARANTINED if plan.act is Act.REPLAY and is_capped else plan.act.decides

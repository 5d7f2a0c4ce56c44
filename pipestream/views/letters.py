"""Dead letters of a graph: grouped by their reason, a page of them, and how many wait at each node."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipestream.dead_letters import (
    OPEN_STATES,
    DeadLetter,
    LetterId,
    Selection,
    State,
    list_dead_letters,
    read_letter,
    summarize,
)
from pipestream.dead_letters.browse import dead_letter_topics
from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.dead_letters.fingerprint import fingerprint
from pipestream.dead_letters.log import DecisionLog
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import OffsetRange
from pipestream.kafka.scan import find_held, scan

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings

MOST_READ = 20_000
"""Letters that one answer looks at. A page that waited for more would help nobody; filters narrow them down."""
_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Letters that failed for the same reason."""

    fingerprint: str
    error: str
    node: str
    message: str
    """Of the newest. Those of the others differ from it by ids, numbers and quoted values at most."""
    count: int
    states: dict[str, int]
    first_failed_at: datetime
    last_failed_at: datetime
    example: str
    """The id of the newest."""


@dataclass(frozen=True, slots=True)
class LetterGroups:
    """All groups, the largest first."""

    groups: list[LetterGroup]
    total: int
    complete: bool
    """False where there are more letters than one answer looks at."""


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, the newest failure first, with the keys of ``pipestream dlq list --json`` and ``fingerprint``."""

    letters: list[dict[str, Any]]
    total: int
    complete: bool


@dataclass(slots=True)
class _Found:
    """Letters of a graph, up to the most that are read."""

    letters: list[DeadLetter] = field(default_factory=list)
    complete: bool = True


class GraphLetters:
    """The dead letters of one graph. Other graphs may write to the same topics; theirs are left out."""

    def __init__(self, graph: Graph, settings: Settings, topics: Collection[str] | None = None) -> None:
        """:param topics: only these; all dead-letter topics of the graph unless given."""
        self._graph = graph
        self._settings = settings
        known = dead_letter_topics([graph], settings)
        self.topics = [topic for topic in known if topics is None or topic in topics]

    def groups(self, selection: Selection, states: Collection[State]) -> LetterGroups:
        """Return the letters grouped by their reason."""
        found = self._read(selection, states)
        grouped: dict[str, list[DeadLetter]] = {}
        for letter in found.letters:
            grouped.setdefault(fingerprint(letter), []).append(letter)
        groups = [_group(print_, letters) for print_, letters in grouped.items()]
        groups.sort(key=lambda group: (-group.count, group.fingerprint))
        return LetterGroups(groups, len(found.letters), found.complete)

    def page(
        self, selection: Selection, states: Collection[State], *, reason: str = "", limit: int, offset: int
    ) -> LetterPage:
        """Return some of the letters, the newest failure first.

        :param reason: only those of this fingerprint.
        """
        found = self._read(selection, states)
        chosen = [each for each in found.letters if not reason or fingerprint(each) == reason]
        newest = heapq.nlargest(offset + limit, chosen, key=lambda each: (each.failed_at, each.letter_id))
        return LetterPage([letter_values(each) for each in newest[offset:]], len(chosen), found.complete)

    def ids(self, selection: Selection, states: Collection[State], reasons: Collection[str]) -> list[LetterId]:
        """Return which letters have one of some fingerprints, of those that one answer looks at; the oldest first."""
        found = [each for each in self._read(selection, states).letters if fingerprint(each) in reasons]
        return [each.letter_id for each in sorted(found, key=lambda each: (each.failed_at, each.letter_id))]

    def _read(self, selection: Selection, states: Collection[State]) -> _Found:
        found = _Found()
        # Most topics of dead letters are empty, and asking about each of them takes several questions.
        held = {each.topic for each in find_held(self._settings, self.topics)}
        topics = [topic for topic in self.topics if topic in held]
        with closing(list_dead_letters(self._settings, topics, selection, states=states)) as letters:  # type: ignore[type-var]
            for number, letter in enumerate(letters):
                if number == MOST_READ:
                    found.complete = False
                    break
                if letter.graph_id in ("", self._graph.graph_id):
                    found.letters.append(letter)
        return found


def letter_values(letter: DeadLetter) -> dict[str, Any]:
    """Return what a list shows of a letter."""
    return {**summarize(letter), "fingerprint": fingerprint(letter)}


def _group(print_: str, letters: list[DeadLetter]) -> LetterGroup:
    newest = max(letters, key=lambda each: (each.failed_at, each.letter_id))
    return LetterGroup(
        fingerprint=print_,
        error=newest.error_kind or "unknown",
        node=newest.node_id,
        message=newest.message[:_MESSAGE_CHARACTERS],
        count=len(letters),
        states=dict(Counter(each.state.value for each in letters)),
        first_failed_at=min(each.first_failed_at for each in letters),
        last_failed_at=newest.failed_at,
        example=str(newest.letter_id),
    )


@dataclass(slots=True)
class _Counted:
    """What is known of a topic: up to which offsets, after which decisions, and what waits by graph and node."""

    decided: object
    ends: dict[int, int]
    waiting: Counter[tuple[str, str]]


class OpenLetters:
    """Counts the letters that wait for somebody. Of a topic, only what is new is read, until something is decided."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._counted: dict[str, _Counted] = {}

    def count(self, graphs: Iterable[Graph]) -> Counter[tuple[str, str]]:
        """Return how many letters wait, by graph and node.

        :raises TransientError: Kafka did not answer.
        """
        topics = dead_letter_topics(graphs, self._settings)
        held: dict[str, list[OffsetRange]] = {}
        for each in find_held(self._settings, [*topics, DECISIONS_TOPIC], committed=True):
            held.setdefault(each.topic, []).append(each)
        decided = [each.end for each in held.pop(DECISIONS_TOPIC, [])]
        counted = {topic: self._known(topic, decided) for topic in held}
        new = [each for topic, ranges in held.items() for each in _unread(ranges, counted[topic].ends)]
        for letter in self._read(new):
            if letter.state in OPEN_STATES:
                counted[letter.letter_id.topic].waiting[letter.graph_id, letter.node_id] += 1
        for each in new:
            counted[each.topic].ends[each.partition] = each.end
        self._counted = counted  # at once, and only after all was read
        return sum((each.waiting for each in counted.values()), Counter())

    def _known(self, topic: str, decided: object) -> _Counted:
        """Return a copy of what is known of a topic; nothing is, after a decision."""
        known = self._counted.get(topic)
        if known is None or known.decided != decided:
            return _Counted(decided, {}, Counter())
        return _Counted(decided, dict(known.ends), Counter(known.waiting))

    def _read(self, ranges: Sequence[OffsetRange]) -> Iterator[DeadLetter]:
        if not ranges:
            return
        decisions, broker = DecisionLog(self._settings).read(), Broker(self._settings)
        ids = {topic: broker.identify(topic).topic_id for topic in {each.topic for each in ranges}}
        for record in scan(self._settings, ranges, committed=True):
            decided = decisions.of_partition(ids[record.topic], record.partition)
            yield read_letter(record, decided.get(record.offset))


def _unread(ranges: Iterable[OffsetRange], ends: Mapping[int, int]) -> list[OffsetRange]:
    starts = [(each, max(each.start, ends.get(each.partition, 0))) for each in ranges]
    return [replace(each, start=start) for each, start in starts if start < each.end]

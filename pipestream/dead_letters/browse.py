"""Look at dead letters: list, count and find them. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipestream.dead_letters.letter import OPEN_STATES, DeadLetter, LetterId, State, read_letter
from pipestream.dead_letters.log import DecisionLog, read_records
from pipestream.dead_letters.selection import EVERYTHING, Selection
from pipestream.errors import TerminalError
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import Watermarks
from pipestream.settings import Settings
from pipestream.topics.required import Purpose, required_topics


class LetterMissing(TerminalError):
    """There is no record at the place a letter's id names."""

    def __init__(self, letter_id: LetterId, low: int, high: int) -> None:
        self.letter_id = letter_id
        super().__init__(
            f"there is no dead letter {letter_id}: partition {letter_id.partition} holds offsets {low}..{high}, some "
            f"of which are Kafka's own; `pipestream dlq list` shows the letters"
        )


@dataclass(slots=True)
class Histogram:
    """How many letters there are, and of which kinds."""

    total: int = 0
    by_error: Counter[str] = field(default_factory=Counter)
    by_node: Counter[str] = field(default_factory=Counter)
    by_day: Counter[str] = field(default_factory=Counter)
    """By the day (UTC) of the last failure."""

    def add(self, letter: DeadLetter) -> None:
        self.total += 1
        self.by_error[letter.error_kind or "unknown"] += 1
        self.by_node[letter.node_id or "unknown"] += 1
        self.by_day[f"{letter.failed_at:%Y-%m-%d}"] += 1


def dead_letter_topics(graphs: Iterable[Graph], settings: Settings) -> list[str]:
    """Return the dead-letter topics of graphs, sorted."""
    specs = [spec for graph in graphs for spec in required_topics(graph, settings)]
    return sorted({spec.name for spec in specs if spec.purpose is Purpose.DEAD_LETTERS})


def list_dead_letters(
    settings: Settings,
    topics: Sequence[str],
    selection: Selection = EVERYTHING,
    *,
    states: Collection[State] = OPEN_STATES,
    limit: int | None = None,
) -> Iterator[DeadLetter]:
    """Yield the letters that lie in topics now, in order of topic, partition and offset.

    Only committed records are read, up to where the topics end at the start. What a replay decides while
    this runs may not show yet.

    :param states: only letters about which this was decided; those that wait unless given.
    :raises TopicMissing: one of the topics is not there.
    """
    if limit is not None and limit < 1:
        return
    broker, decisions = Broker(settings), DecisionLog(settings).read()
    found = 0
    for topic in topics:
        identity = broker.identify(topic)
        for partition, marks in sorted(broker.settled_watermarks(topic, identity.partitions).items()):
            decided = decisions.of_partition(identity.topic_id, partition)
            for record in read_records(settings, topic, partition, marks):
                letter = read_letter(record, decided.get(record.offset))
                if letter.state in states and selection.matches(letter):
                    yield letter
                    found += 1
                    if found == limit:
                        return


def find_dead_letter(settings: Settings, letter_id: LetterId) -> DeadLetter:
    """Return one letter, whatever was decided about it.

    :raises TopicMissing: its topic is not there.
    :raises LetterMissing: the topic has no record there, or no longer.
    """
    broker = Broker(settings)
    identity = broker.identify(letter_id.topic)
    if letter_id.partition not in identity.partitions:
        raise LetterMissing(letter_id, 0, 0)
    marks = broker.settled_watermarks(letter_id.topic, [letter_id.partition])[letter_id.partition]
    if not marks.low <= letter_id.offset < marks.high:
        raise LetterMissing(letter_id, marks.low, marks.high)
    just_there = Watermarks(letter_id.offset, letter_id.offset + 1)
    for record in read_records(settings, letter_id.topic, letter_id.partition, just_there):
        decided = DecisionLog(settings).read().of_partition(identity.topic_id, letter_id.partition)
        return read_letter(record, decided.get(record.offset))
    raise LetterMissing(letter_id, marks.low, marks.high)


def histogram(letters: Iterable[DeadLetter]) -> Histogram:
    """Count letters by error kind, node and day."""
    counted = Histogram()
    for letter in letters:
        counted.add(letter)
    return counted

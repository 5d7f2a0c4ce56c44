"""What the model broker's topics hold at one moment, read without the code under test that wrote it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.dead_letters.letter import DeadLetter, State, read_letter
from pipestream.engine.dead_letter_record import CONNECT
from pipestream.kafka.records import InputRecord, header
from pipestream_testing.broker import ModelBroker
from pipestream_testing.model_drain import Origins

Place = tuple[int, int]
"""Partition and offset."""


class Result(NamedTuple):
    """What was made of an input record, and by whose run: the part of the run's id before the first dash."""

    of: str
    place: Place
    is_dead: bool
    is_given_up: bool = False
    """It is dead because processes died at it, not because it is poison."""


class Decided(NamedTuple):
    """One decision about one letter."""

    action_id: str
    place: Place
    state: State


@dataclass(frozen=True, slots=True)
class Census:
    """Everything that is committed."""

    inputs: dict[Place, InputRecord]
    letters: dict[Place, DeadLetter]
    planned: dict[str, set[Place]]
    """The letters that each action may decide about, by the first plan under its id."""
    decisions: list[Decided]
    """In the order in which they were taken."""
    results: list[Result]
    out: Counter[bytes | None]
    """How often each document came out, by its key."""

    def waiting(self, of: str) -> list[InputRecord]:
        """Return the input records of which someone's runs have made nothing yet."""
        done = {result.place for result in self.results if result.of == of}
        return [record for place, record in self.inputs.items() if place not in done]

    def letters_left(self) -> list[DeadLetter]:
        """Return the letters that were not sent back."""
        replayed = {decided.place for decided in self.decisions if decided.state is State.REPLAYED}
        return [letter for place, letter in self.letters.items() if place not in replayed]

    def places(self, of: str) -> Counter[bytes | None]:
        """Return how often each document is somewhere: it came out, it waits, or it is a letter that was left."""
        waiting = Counter(record.key for record in self.waiting(of))
        return self.out + waiting + Counter(letter.record.key for letter in self.letters_left())


def take_census(broker: ModelBroker, topic: str, dead_topic: str, out_topic: str) -> Census:
    """Read all that is committed in a topic and in those that its records become."""
    letters = [read_letter(record) for record in broker.all_records(dead_topic)]
    results = [_dead(letter) for letter in letters]
    origins = Origins(broker)
    for record in broker.all_records(out_topic):
        of, made_of = origins.find(header(record.headers, "pipestream.stream") or "")
        results.append(Result(of, (made_of.partition, made_of.offset), is_dead=False))
    decided = broker.all_records(DECISIONS_TOPIC)
    return Census(
        inputs={(record.partition, record.offset): record for record in broker.all_records(topic)},
        letters={(letter.record.partition, letter.record.offset): letter for letter in letters},
        planned=_planned(decided),
        decisions=[each for record in decided for each in _decisions(record)],
        results=results,
        out=Counter(record.key for record in broker.all_records(out_topic)),
    )


def _dead(letter: DeadLetter) -> Result:
    is_given_up = header(letter.record.headers, CONNECT + "exception.class.name") == "ProcessDied"
    return Result(letter.run_id.split("-")[0], _origin(letter), is_dead=True, is_given_up=is_given_up)


def _origin(letter: DeadLetter) -> Place:
    partition, offset = (header(letter.record.headers, CONNECT + name) for name in ("partition", "offset"))
    return int(partition or -1), int(offset or -1)


def _planned(records: Iterable[InputRecord]) -> dict[str, set[Place]]:
    planned: dict[str, set[Place]] = {}
    for record in records:
        values = json.loads(record.value or b"")
        if values["kind"] == "plan":
            ranges = [(partition, range(start, end)) for _, _, partition, start, end in values["ranges"]]
            planned.setdefault(values["action"], {(partition, o) for partition, offsets in ranges for o in offsets})
    return planned


def _decisions(record: InputRecord) -> Iterator[Decided]:
    values = json.loads(record.value or b"")
    if values["kind"] == "batch":
        for state, runs in values["decided"].items():
            for start, end in runs:
                for offset in range(start, end):
                    yield Decided(values["action"], (values["partition"], offset), State(state))

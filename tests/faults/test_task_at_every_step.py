"""The product's own range task on the model broker: overtaken, or killed, at each of its steps in turn."""

from __future__ import annotations

from functools import partial
from itertools import count, product

import pytest

from pipestream import faults
from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.documents.references import key_of
from pipestream.drain import task
from pipestream.errors import PipestreamError
from pipestream.objects.store import open_store
from pipestream.settings import Settings
from pipestream.wire import PipeStream
from pipestream_testing.broker import ModelBroker
from pipestream_testing.census import take_census
from pipestream_testing.length import by_length
from pipestream_testing.model_drain import (
    DEAD,
    LIVE,
    OUT,
    TOPIC,
    SteppingStore,
    drain_without_ledger,
    make_document,
    use_broker,
)
from pipestream_testing.oracle import Verdict
from pipestream_testing.turns import Crash, Turns

HEALTHY, POISON = 0, 99
TO_THE_END = 10_000
WHOLE, CUT, SIDE_BY_SIDE, IN_ORDER = {}, {"sub_range_offsets": 2}, {"concurrency": 2}, {"is_ordered": True}
# Each with more steps than the drain takes, which the tests make sure of.
WAYS = [
    ("a task", WHOLE, WHOLE, 60),
    ("a task that processes side by side", SIDE_BY_SIDE, SIDE_BY_SIDE, 60),
    ("a drain in sub-ranges", CUT, CUT, 100),
    ("a task in order of time, then one that is not", IN_ORDER, WHOLE, 60),
    ("a task, then one in order of time", WHOLE, IN_ORDER, 60),
]
MIXED = [
    ("a drain in sub-ranges, then a task", CUT, WHOLE, 100),
    ("a task, then a drain in sub-ranges", WHOLE, CUT, 60),
    ("a task in order of time", IN_ORDER, IN_ORDER, 60),
    ("a task in order of time, then a drain in sub-ranges", IN_ORDER, CUT, 60),
    ("a drain in sub-ranges, then a task in order of time", CUT, IN_ORDER, 100),
]
WAYS += by_length([], MIXED)


class World:
    """A topic with five documents, of which one is poison, and processes that drain it in chunks of two."""

    def __init__(self, folder):
        self.turns = Turns()
        self.broker = ModelBroker(self.turns.step)
        for topic in (TOPIC, DEAD, OUT, DECISIONS_TOPIC):
            self.broker.create(topic, 1)
        for number, heals_after in enumerate([HEALTHY, POISON, HEALTHY, HEALTHY, HEALTHY]):
            self.broker.append(make_document(f"doc-{number}", heals_after), 0)
        use_broker(self.broker)
        self.settings = Settings(store_uri=f"file://{folder}", chunk_records=2, failing_share=1.0)
        self.runs = count()

    def drain(self, way):
        return partial(
            drain_without_ledger,
            self.broker,
            self.settings,
            run_id=f"{LIVE}-{next(self.runs)}",
            budget=100,
            **way,
        )

    def check(self, rounds, title):
        found = take_census(self.broker, TOPIC, DEAD, OUT)
        places = found.places(LIVE)
        lost = sum(places[record.key] == 0 for record in found.inputs.values())
        rounds.add(title, Verdict(lost, places.total() - len(places)))
        assert not found.waiting(LIVE)
        assert sorted(result.place for result in found.results) == sorted(found.inputs)
        assert [result.place for result in found.results if result.is_dead] == [(0, 1)]

    def read_outputs(self):
        """Return the document that each committed output refers to, by the output's offset."""
        with open_store(self.settings.store_uri, self.settings) as store:
            return {
                record.offset: store.get(key_of(PipeStream.FromString(record.value)))
                for record in self.broker.all_records(OUT)
            }


@pytest.fixture
def make_world(tmp_path, monkeypatch):
    made = count()
    open_store = task.open_store

    def make():
        world = World(tmp_path / str(next(made)))
        step = world.turns.step
        monkeypatch.setattr(task, "open_store", lambda *of: SteppingStore(open_store(*of), step))
        monkeypatch.setattr(faults, "reach", lambda _: step())
        return world

    return make


@pytest.mark.parametrize(("title", "first", "second", "steps"), WAYS)
def test_a_task_that_is_overtaken_at_any_step_leaves_every_document_in_one_place(
    make_world, rounds, title, first, second, steps
):
    for step in range(steps):
        world = make_world()

        outcomes = world.turns.run([world.drain(first), world.drain(second)], [(0, step), (1, TO_THE_END)])

        for outcome in outcomes:
            assert outcome is None or isinstance(outcome, PipestreamError)
        world.check(rounds, f"{title} overtaken at each of its steps")
    assert set(world.broker.epochs.values()) == {1}, "the first was at its end before the second began"


@pytest.mark.parametrize(("first", "second"), [(IN_ORDER, WHOLE), (WHOLE, IN_ORDER)])
def test_a_task_in_order_of_time_and_one_that_is_not_never_both_commit_however_their_starts_interleave(
    make_world, rounds, first, second
):
    for begun, overtaken_for in product(range(8), range(1, 10)):
        world = make_world()

        order = [(0, begun), (1, overtaken_for), (0, TO_THE_END)]
        world.turns.run([world.drain(first), world.drain(second)], order)
        world.turns.run([world.drain(second)])  # each may have stopped the other

        world.check(rounds, "a task in order of time and one that is not, started together")


@pytest.mark.parametrize(("title", "first", "second", "steps"), WAYS)
def test_a_task_that_is_overtaken_at_any_step_changes_no_document_of_a_committed_record(
    make_world, title, first, second, steps
):
    for step in range(steps):
        world, before = make_world(), {}

        def look(world=world, before=before):
            before.update(world.read_outputs())

        world.turns.run([world.drain(first), world.drain(second), look], [(0, step), (1, TO_THE_END), (2, 1)])

        assert len(before) == 4, "the second has drained all but the poison"
        assert world.read_outputs() == before, f"{title}, overtaken at step {step}"


@pytest.mark.parametrize(("title", "first", "second", "steps"), WAYS)
def test_a_task_that_dies_at_any_step_is_resumed_without_a_document_lost_or_doubled(
    make_world, rounds, title, first, second, steps
):
    for step in range(steps):
        world = make_world()

        (outcome,) = world.turns.run([world.drain(first)], [(0, step)], killed=[0])
        world.turns.run([world.drain(second)])

        assert outcome is None or isinstance(outcome, Crash)
        world.check(rounds, f"{title} killed at each of its steps")
    assert outcome is None, "it was at its end before it could be killed"

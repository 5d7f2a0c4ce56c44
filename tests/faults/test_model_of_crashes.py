"""A state machine over plan, drain, crash, reconcile, backfill and replay, on a model of Kafka and a real ledger.

Runs, tasks and actions on dead letters are the product's own; only the broker is modelled. Rules are Hypothesis's to
choose, and so is how often each document fails before it heals.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from functools import partial
from itertools import product

import pytest
from hypothesis import HealthCheck, note, seed, settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pipestream import faults
from pipestream.dead_letters import Act, ActionRequest, State, resume_action, run_action
from pipestream.dead_letters.decisions import DECISIONS_TOPIC, PlannedTwice
from pipestream.drain import task
from pipestream.drain.backfill import Backfill
from pipestream.drain.live_lane import LiveLane
from pipestream.drain.local_runner import LocalRunner
from pipestream.drain.range_task import RangeFailed
from pipestream.drain.request import DrainRequest
from pipestream.drain.run import run_drain
from pipestream.errors import LedgerConflict, Overtaken
from pipestream.kafka.records import header
from pipestream.leases.none import NoLeaseStore
from pipestream.ledger import Ledger, Tally
from pipestream.settings import Settings
from pipestream_testing.broker import ModelBroker
from pipestream_testing.census import take_census
from pipestream_testing.length import by_length, seeds
from pipestream_testing.model_drain import (
    BACKFILLS,
    DEAD,
    GRAPH,
    IN_ORDER,
    LIVE,
    OUT,
    TOPIC,
    SteppingStore,
    drain_without_ledger,
    heals_after,
    is_poison,
    make_document,
    use_broker,
)
from pipestream_testing.oracle import Verdict
from pipestream_testing.turns import Crash, Turns

PARTITIONS = 2
# A document heals after so many replays; some never do.
MOST_REPLAYS, FOREVER = 3, 99
TO_THE_END = 10_000
# What comes to a process that another one gets in the way of; it may be repeated as it is.
OVERTAKEN = (Overtaken, PlannedTwice, LedgerConflict, RangeFailed)

healings = strategies.lists(strategies.sampled_from([0, 0, 1, 2, MOST_REPLAYS, FOREVER]), min_size=1, max_size=4)
budgets = strategies.integers(1, 20)
# How much a run may drain, and whether its version of the graph wants the records in order of time.
runs = strategies.tuples(budgets, strategies.booleans())
deaths = strategies.none() | strategies.integers(0, 60)
# How many steps the two of a race take by turns; who of them then goes on to its end; and who dies where it is.
courses = strategies.fixed_dictionaries(
    {
        "steps": strategies.lists(strategies.integers(1, 30), min_size=1, max_size=4),
        "overtakes": strategies.sampled_from([0, 1, 1, None]),
        "killed": strategies.sampled_from([(), (), (), (0,), (1,), (0, 1)]),
    }
)
acts = strategies.builds(
    dict,
    # Mostly replays, and few that set letters aside for good: the others need some to act on.
    act=strategies.sampled_from([Act.REPLAY] * 8 + [Act.RELEASE] * 2 + [Act.QUARANTINE, Act.PURGE]),
    limit=strategies.none() | strategies.integers(1, 5),
    max_replays=strategies.sampled_from([0, 1, 2, 3, 3, 3]),
)

SAME = strategies.just("the same")


class Replays(RuleBasedStateMachine):
    """Actions on dead letters and drains in any order, side by side, dying anywhere: every document is in one place.

    Without a ledger, thousands of races take seconds.
    """

    title = "any order of replays, on a model of Kafka"
    begun = Bundle("begun")

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.folder = tempfile.TemporaryDirectory()
        self.settings = Settings(
            store_uri=f"file://{self.folder.name}/objects",
            ledger_uri=f"file://{self.folder.name}/ledger",
            leases="none",
            chunk_records=2,
            failing_share=1.0,  # however many documents are poison
        )
        self.turns = Turns()
        self.broker = ModelBroker(self.turns.step)
        for topic in (TOPIC, DEAD, OUT):
            self.broker.create(topic, PARTITIONS)
        self.broker.create(DECISIONS_TOPIC, 1)
        self.numbers = iter(range(10**9))
        self.produced = {}
        self.backfilled = {}
        self.asked = {}
        self.finished = set()
        use_broker(self.broker)
        self.reach, faults.reach = faults.reach, lambda _: self.turns.step()
        self.open_store, task.open_store = task.open_store, self.open_stepping_store

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:  # else it has failed already, and that is what to tell
                self.let_everything_come_out()
        finally:
            faults.reach, task.open_store = self.reach, self.open_store
            self.folder.cleanup()

    def open_stepping_store(self, uri, settings):
        return SteppingStore(self.open_store(uri, settings), self.turns.step)

    def let_everything_come_out(self):
        """Drain all that waits and replay all that heals, then count."""
        self.broker.time_out()
        for _ in range(MOST_REPLAYS + 2):
            self.drain(self.new_run(1_000_000))
            found = self.census()
            if all(heals_after(letter.record) == FOREVER for letter in found.letters_left()):
                break
            for act in (Act.RELEASE, Act.REPLAY):
                self.act(self.new_action(act=act, max_replays=FOREVER))
        else:
            raise AssertionError("a document has been replayed often enough, and does not come out")
        places, expected = found.places(LIVE), self.expected(found)
        lost, doubled = (expected - places).total(), (places - expected).total()
        self.rounds.add(self.title, Verdict(lost, doubled))
        assert not found.waiting(LIVE)
        self.everything_adds_up()

    def new_id(self, kind):
        return f"{kind}-{next(self.numbers)}"

    def new_run(self, budget, is_ordered=False):
        return DrainRequest(IN_ORDER if is_ordered else GRAPH, TOPIC, self.new_id(LIVE), budget)

    def new_action(self, **asked):
        request = ActionRequest(action_id=self.new_id("act"), topics=(DEAD,), **asked)
        self.asked[request.action_id] = request
        return request

    def new_request(self, asked):
        return self.new_run(asked) if isinstance(asked, int) else self.new_action(**asked)

    # What a process does.

    def drain(self, request, chunk=3):
        drain_without_ledger(
            self.broker,
            self.in_chunks(chunk),
            run_id=request.run_id,
            budget=request.budget,
            is_ordered=request.graph == IN_ORDER,
        )

    def in_chunks(self, chunk):
        return self.settings.model_copy(update={"chunk_records": chunk})

    def act(self, request, *, is_resumed=False):
        if is_resumed:
            resume_action(request.action_id, self.settings, [GRAPH], broker=self.broker)
        else:
            run_action(request, self.settings, [GRAPH], broker=self.broker)
        self.finished.add(request.action_id)

    def work(self, request):
        return partial(self.drain if isinstance(request, DrainRequest) else self.act, request)

    def alone(self, work, dies_after=None):
        """Run one process; True if it must be repeated."""
        (outcome,) = self.turns.run([work], [(0, dies_after or 0)], killed=[] if dies_after is None else [0])
        # A plan that another's open transaction holds back is made a second time, and found out.
        return self.is_to_be_repeated(outcome, PlannedTwice)

    def race(self, one, other, course):
        """Run two processes side by side."""
        order = [(number % 2, count) for number, count in enumerate(course["steps"])]
        if course["overtakes"] is not None:
            order.append((course["overtakes"], TO_THE_END))
        for outcome in self.turns.run([self.work(one), self.work(other)], order, course["killed"]):
            self.is_to_be_repeated(outcome, *OVERTAKEN)

    @staticmethod
    def is_to_be_repeated(outcome, *expected):
        note(f"came to {outcome!r}")
        if isinstance(outcome, BaseException) and not isinstance(outcome, (Crash, *expected)):
            raise outcome
        return isinstance(outcome, BaseException)

    # What may happen.

    @initialize(healing=healings)
    def some_fail(self, healing):
        for partition in range(PARTITIONS):
            self.produce(partition, healing)
        self.drain(self.new_run(1_000))

    @rule(partition=strategies.integers(0, PARTITIONS - 1), healing=healings)
    def produce(self, partition, healing):
        for replays in healing:
            doc_id = self.new_id("doc")
            self.produced[doc_id.encode()] = replays
            self.broker.append(make_document(doc_id, replays), partition)

    @rule(
        target=begun,
        budget=budgets,
        is_ordered=strategies.booleans(),
        chunk=strategies.integers(1, 5),
        dies_after=deaths,
    )
    def run(self, budget, is_ordered, chunk, dies_after):
        request = self.new_run(budget, is_ordered)
        return request if self.alone(partial(self.drain, request, chunk), dies_after) else multiple()

    @rule(target=begun, asked=acts, dies_after=deaths)
    def act_on_letters(self, asked, dies_after):
        request = self.new_action(**asked)
        self.alone(self.work(request), dies_after)
        return request

    @rule(target=begun, healing=healings, first=acts, second=acts | budgets | SAME, course=courses)
    def an_action_races(self, healing, first, second, course):
        self.some_fail(healing)  # a race is about something
        one = self.new_action(**first)
        other = one if second == "the same" else self.new_request(second)
        self.race(one, other, course)
        return multiple(one, other)

    @rule(request=begun, dies_after=deaths)
    def go_on(self, request, dies_after):
        self.alone(self.work(request), dies_after)

    @rule(request=begun, dies_after=deaths)
    def resume(self, request, dies_after):
        if isinstance(request, ActionRequest) and request.action_id in self.broker.log.read().plans:
            self.alone(partial(self.act, request, is_resumed=True), dies_after)

    @rule(request=begun)
    def repeat_what_is_finished(self, request):
        if isinstance(request, ActionRequest) and request.action_id in self.finished:
            before = self.census()
            self.alone(self.work(request))
            assert self.census() == before

    @rule()
    def the_broker_aborts_what_the_dead_left_open(self):
        self.broker.time_out()

    # What always holds.

    @invariant()
    def everything_adds_up(self):
        found = self.census()
        self.every_document_is_in_one_place(found)
        self.runs_take_every_record_once_and_in_order(found)
        self.a_record_fails_exactly_while_it_is_poison(found)
        self.a_letter_is_sent_back_once_and_just_where_the_log_says_so(found)
        self.actions_keep_to_their_plan_to_the_cap_and_to_what_they_are_for(found)

    def census(self):
        return take_census(self.broker, TOPIC, DEAD, OUT)

    def expected(self, found):
        """Return how often each document should be: once, and once more for each time that a backfill took it up."""
        backfilled = {result[:2] for result in found.results if result.of != LIVE}
        return Counter(self.produced.keys()) + Counter(found.inputs[place].key for _, place in backfilled)

    def every_document_is_in_one_place(self, found):
        assert found.places(LIVE) == self.expected(found)

    def runs_take_every_record_once_and_in_order(self, found):
        taken = Counter(result[:2] for result in found.results)
        assert set(taken.values()) <= {1}, taken
        for partition in range(PARTITIONS):
            there = sorted(place for place in found.inputs if place[0] == partition)
            live = sorted(place for of, place in taken if of == LIVE and place[0] == partition)
            assert live == there[: len(live)]
        for name, backfill in self.backfilled.items():
            start, end = backfill.offsets[0]
            assert {place for of, place in taken if of == name} <= {(0, offset) for offset in range(start, end)}

    def a_record_fails_exactly_while_it_is_poison(self, found):
        for result in found.results:
            # One that processes died at often enough is given up, whatever is in it.
            assert is_poison(found.inputs[result.place]) == result.is_dead or result.is_given_up

    def a_letter_is_sent_back_once_and_just_where_the_log_says_so(self, found):
        ids = [header(record.headers, "pipestream.dead.letter") for record in found.inputs.values()]
        sent = Counter(letter_id for letter_id in ids if letter_id)
        replayed = [decided.place for decided in found.decisions if decided.state is State.REPLAYED]
        assert sent == Counter(f"{DEAD}/{partition}/{offset}" for partition, offset in replayed)
        assert set(sent.values()) <= {1}, sent

    def actions_keep_to_their_plan_to_the_cap_and_to_what_they_are_for(self, found):
        states, counts = {}, Counter()
        for action_id, place, state in found.decisions:
            asked, was, letter = self.asked[action_id], states.get(place, State.OPEN), found.letters[place]
            states[place] = state
            counts[action_id] += 1
            is_capped = asked.act is Act.REPLAY and letter.replays >= asked.max_replays and was is not State.RELEASED
            assert place in found.planned[action_id]
            assert was in asked.act.applies_to
            assert state is (State.QUARANTINED if is_capped else asked.act.decides)
            assert asked.limit is None or counts[action_id] <= asked.limit


class Crashes(Replays):
    """The same with the product's own runs, its backfills and a real ledger."""

    title = "any order of crashes, on a model of Kafka"

    def __init__(self, rounds):
        super().__init__(rounds)
        self.ledger = Ledger(self.settings)
        self.entries = None

    def drain(self, request, chunk=3):
        self.entries = None  # only a drain changes the ledger, and reading it takes longer than all else here
        runner = LocalRunner(self.in_chunks(chunk), self.broker, at_once=1)
        # Some runs are in sub-ranges and waves of a few records, and meet what the others left.
        cut = {"sub_ranges": "never" if chunk % 2 else "always", "sub_range_wave_s": 0.02, "failing_minimum": 2}
        settings = self.settings.model_copy(update=cut)
        run_drain(request, settings, runner, leases=NoLeaseStore(), broker=self.broker)

    @rule(
        name=strategies.sampled_from(BACKFILLS),
        start=strategies.integers(0, 10),
        length=strategies.integers(1, 10),
        dies_after=deaths,
    )
    def backfill(self, name, start, length, dies_after):
        # What it covers was fixed when it first ran, whatever later calls ask for.
        if name not in self.backfilled:
            end = min(start + length, self.broker.watermarks(TOPIC, [0])[0].high)
            if start >= end:
                return
            self.backfilled[name] = Backfill(name, offsets={0: (start, end)})
        request = DrainRequest(GRAPH, TOPIC, self.new_id(name), 1, backfill=self.backfilled[name])
        self.alone(self.work(request), dies_after)

    @rule(target=Replays.begun, runs=strategies.tuples(runs, runs), course=courses)
    def two_runs_race(self, runs, course):
        one, other = (self.new_run(*each) for each in runs)
        self.race(one, other, course)
        return multiple(one, other)

    @rule()
    def kafka_forgets_the_offsets_of_a_caught_up_group(self):
        # Kafka forgets what was quiet for a week; a run that died has been reconciled long before.
        self.drain(self.new_run(1_000))
        self.broker.forget_offsets(LiveLane.of(GRAPH).group)

    @rule()
    def a_stale_run_enters_nothing(self):
        if entries := self.ledger.entries(lane="g"):
            with pytest.raises(LedgerConflict):
                self.ledger.enter([entries[0]])
            assert self.ledger.entries(lane="g") == entries

    @invariant()
    def the_ledger_tiles_and_tells_what_became_of_the_records(self):
        found = self.census()
        live = {result.place: result.is_dead for result in found.results if result.of == LIVE}
        if self.entries is None:
            self.entries = self.ledger.entries(lane="g")
        for partition in range(PARTITIONS):
            at = 0
            for entry in (e for e in self.entries if e.range.partition == partition):
                assert entry.range.start == at
                at = entry.range.end
                there = [record.offset for record in self.broker.records(TOPIC, partition, entry.range.start, at)]
                dead = sum(live[partition, offset] for offset in there)  # none may be missing
                passed = {"happy-end": len(there) - dead} if len(there) > dead else {}
                assert entry.tally in (None, Tally(len(there), passed, dead))


class Overlaps(Crashes):
    """The same, for two runs that a test lets overlap."""

    title = "a run in order of time that starts while another one does, on a model of Kafka"


@pytest.fixture
def run_machine(rounds, request):
    """Let a machine run by a seed, which is told at the end of the test run."""

    def run(machine, chosen_by, examples):
        chosen = settings(
            max_examples=examples,
            stateful_step_count=by_length(30, 60),
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        rounds.add_seed(request.node.nodeid.partition("[")[0], chosen_by)
        run_state_machine_as_test(seed(chosen_by)(lambda: machine(rounds)), settings=chosen)

    return run


# Finding the shortest way to a failure takes Hypothesis up to five minutes, and then it has to be told. The long
# version takes seven minutes on a machine that does much else.
@pytest.mark.timeout(by_length(900, 3600))
@pytest.mark.parametrize("seed_of_round", seeds(1, 2))
def test_in_whatever_order_replays_crash_every_document_is_in_one_place(run_machine, seed_of_round):
    run_machine(Replays, seed_of_round, by_length(12, 100))


@pytest.mark.timeout(by_length(900, 3600))
@pytest.mark.parametrize("seed_of_round", seeds(1, 2))
def test_in_whatever_order_runs_crash_every_document_is_in_one_place(run_machine, seed_of_round):
    run_machine(Crashes, seed_of_round, by_length(4, 50))


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_run_in_order_of_time_and_one_that_is_not_take_every_record_once_wherever_they_overlap(rounds, is_ordered):
    # In sixteen steps a run has started its tasks, and has not committed all.
    for begun, other_begun in product(range(16), by_length([16], range(6, 24, 2))):
        world = Overlaps(rounds)
        try:
            for partition in range(PARTITIONS):
                world.produce(partition, [0, 0])
            runs = [world.work(world.new_run(100, each)) for each in (not is_ordered, is_ordered)]
            for outcome in world.turns.run(runs, [(0, begun), (1, other_begun), (0, TO_THE_END)]):
                assert outcome is None or isinstance(outcome, OVERTAKEN)
        finally:
            world.teardown()

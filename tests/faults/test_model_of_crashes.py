"""A state machine over plan, drain, crash, reconcile and backfill, on a model of the broker and a real ledger."""

from __future__ import annotations

import tempfile
from collections import Counter

from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from pipestream import faults
from pipestream.drain.backfill import Backfill
from pipestream.drain.model import DrainRequest, consumer_group
from pipestream.drain.run import run_drain
from pipestream.errors import LedgerConflict
from pipestream.graph.model import Datasource, Graph, Node, NodeType
from pipestream.leases.none import NoLeaseStore
from pipestream.ledger import Ledger
from pipestream.settings import Settings
from pipestream.testing.broker import Crash, ModelBroker
from pipestream.testing.length import by_length
from pipestream.testing.oracle import Verdict

TOPIC = "intake.a"
GRAPH = Graph(
    "g",
    "main",
    (Node("n", "main"), Node("happy-end", "main", node_type=NodeType.SINK)),
    datasources=(Datasource("a", "acme", "n"),),
)
DRIVER_POINTS = [None, *(point for point in faults.POINTS if not point.startswith("chunk-"))]


class Drains(RuleBasedStateMachine):
    """Runs, crashes and retries in any order. Whatever happens, each record comes out once per lane."""

    died = Bundle("died")

    def __init__(self, rounds):
        super().__init__()
        self.rounds = rounds
        self.folder = tempfile.TemporaryDirectory()
        self.settings = Settings(ledger_uri=f"file://{self.folder.name}", leases="none")
        self.ledger = Ledger(self.settings)
        self.broker = ModelBroker()
        self.backfilled = {}
        self.runs = 0

    def teardown(self):
        """Drain what is left, and count."""
        try:
            self.drain(DrainRequest(GRAPH, TOPIC, "last", 1_000_000))
            out = self.broker.delivered.get(consumer_group(GRAPH, "g"), Counter())
            lost = sum(self.broker.ends.values()) - len(out)
            self.rounds.add("any order of crashes, on a model of Kafka", Verdict(lost, out.total() - len(out)))
        finally:
            self.folder.cleanup()

    def drain(self, request, *, chunk=3, point=None, crash_at=None):
        """Run; True if it died on the way."""
        steps = iter(range(10**6))
        real = faults.reach

        def reach(reached):
            if reached == point:
                raise Crash

        faults.reach = reach
        try:
            spread = self.broker.spread(chunk, lambda: next(steps) == crash_at)
            run_drain(request, self.settings, spread, leases=NoLeaseStore(), broker=self.broker)
        except Crash:
            return True
        finally:
            faults.reach = real
        return False

    @rule(partition=strategies.integers(0, 1), count=strategies.integers(1, 12))
    def produce(self, partition, count):
        self.broker.produce(partition, count)

    @rule(
        target=died,
        budget=strategies.integers(1, 20),
        chunk=strategies.integers(1, 5),
        point=strategies.sampled_from(DRIVER_POINTS),
        crash_at=strategies.none() | strategies.integers(0, 6),
    )
    def run(self, budget, chunk, point, crash_at):
        self.runs += 1
        request = DrainRequest(GRAPH, TOPIC, f"run-{self.runs}", budget)
        died = self.drain(request, chunk=chunk, point=point, crash_at=crash_at)
        return request if died else multiple()

    @rule(request=consumes(died), crash_at=strategies.none() | strategies.integers(0, 6), target=died)
    def retry(self, request, crash_at):
        return request if self.drain(request, crash_at=crash_at) else multiple()

    @rule()
    def kafka_forgets_the_offsets_of_a_caught_up_group(self):
        # Kafka forgets what was quiet for a week; a run that died has been reconciled long before.
        self.drain(DrainRequest(GRAPH, TOPIC, f"quiet-{self.runs}", 1_000))
        self.runs += 1
        self.broker.forget_offsets(consumer_group(GRAPH, "g"))

    @rule(
        name=strategies.sampled_from(["b1", "b2"]),
        start=strategies.integers(0, 10),
        length=strategies.integers(1, 10),
        crash_at=strategies.none() | strategies.integers(0, 4),
    )
    def backfill(self, name, start, length, crash_at):
        end = min(start + length, self.broker.ends.get(0, 0))
        if name not in self.backfilled and start >= end:
            return
        asked = Backfill(name, offsets={0: (start, end)}) if start < end else Backfill(name, offsets={0: (0, 1)})
        self.runs += 1
        request = DrainRequest(GRAPH, TOPIC, f"run-{self.runs}", 1, backfill=asked)
        self.drain(request, crash_at=crash_at)
        # What it covers was fixed when it first ran, whatever later calls ask for.
        self.backfilled.setdefault(name, (start, end))

    @rule()
    def a_stale_run_enters_nothing(self):
        entries = self.ledger.entries(lane="g")
        if not entries:
            return
        try:
            self.ledger.enter([entries[0]])
            raise AssertionError("a range was entered twice")
        except LedgerConflict:
            pass

    @invariant()
    def nothing_came_out_twice_and_nothing_was_skipped(self):
        live = self.broker.delivered.get(consumer_group(GRAPH, "g"), Counter())
        assert set(live.values()) <= {1}
        for partition in range(2):
            out = sorted(offset for p, offset in live if p == partition)
            assert out == list(range(len(out)))

    @invariant()
    def the_ledger_tiles_and_never_runs_ahead_of_kafka(self):
        entries = self.ledger.entries(lane="g")
        live = self.broker.delivered.get(consumer_group(GRAPH, "g"), Counter())
        for partition in range(2):
            at = 0
            for entry in (e for e in entries if e.range.partition == partition):
                assert entry.range.start == at
                assert entry.tally is None or entry.tally.records == len(entry.range)
                at = entry.range.end
            assert at <= sum(1 for p, _ in live if p == partition)

    @invariant()
    def a_backfill_brings_out_its_own_range_once(self):
        for name, (start, end) in self.backfilled.items():
            out = self.broker.delivered.get(consumer_group(GRAPH, f"g@{name}"), Counter())
            assert set(out.values()) <= {1}
            assert {offset for _, offset in out} <= set(range(start, end))


def test_in_whatever_order_runs_crash_each_record_comes_out_once(rounds):
    run_state_machine_as_test(
        lambda: Drains(rounds),
        settings=settings(
            max_examples=by_length(15, 400),
            stateful_step_count=by_length(30, 60),
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )

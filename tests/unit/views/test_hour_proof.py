"""Which hours are complete: on a small model of topics, drains and a ledger, and case by case."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.graph.load import check_graph_text
from pipestream.views.hour_proof import HOUR, PartitionState, Stage, count_late, next_hours, prove_hour
from pipestream.views.hours import stages_behind

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
GRACE = timedelta(seconds=60)
DIAMOND = (Stage(("in",), ()), Stage(("a",), ("in",)), Stage(("b",), ("in", "a")), Stage(("c",), ("a", "b")))
LOOP = (Stage(("in",), ()), Stage(("a", "b"), ("in",), is_cycle=True), Stage(("c",), ("a", "b")))
FEEDS = {
    "diamond": {"in": "ab", "a": "bc", "b": "c", "c": ""},
    "loop": {"in": "a", "a": "bc", "b": "ac", "c": ""},
}


@dataclass
class World:
    """Topics of two partitions, whose records carry the time when their document came in."""

    feeds: dict[str, str]
    now: datetime = NOON - timedelta(minutes=2)
    logs: dict[tuple[str, int], list[tuple[datetime, datetime]]] = field(default_factory=dict)
    heads: Counter[tuple[str, int]] = field(default_factory=Counter)
    recorded: dict[tuple[str, int], list[tuple[int, datetime]]] = field(default_factory=dict)

    def write(self, topic: str, partition: int, skew_s: int, came_at: datetime | None = None) -> None:
        written_at = self.now + timedelta(seconds=skew_s)
        self.logs.setdefault((topic, partition), []).append((written_at, came_at or written_at))

    def drain(self, topic: str, most: int, way: int, skew_s: int) -> None:
        """Drain some records; each goes on to one or all of the topics behind. Recording takes ten seconds."""
        for partition in (0, 1):
            place = (topic, partition)
            taken = self.logs.get(place, [])[self.heads[place] : self.heads[place] + most]
            for number, (_, came_at) in enumerate(taken):
                fed = self.feeds[topic]
                for target in fed if way == 0 else fed[way % 2 : way % 2 + 1]:
                    self.write(target, (number + way) % 2, skew_s, came_at)
            self.now += timedelta(seconds=10)
            if taken:
                self.heads[place] += len(taken)
                self.recorded.setdefault(place, []).append((self.heads[place], self.now))

    def look(self, topic: str, moment: datetime) -> dict[int, PartitionState]:
        return {
            partition: PartitionState(
                self.heads[topic, partition],
                len(log),
                next((number for number, (at, _) in enumerate(log) if at >= moment), None),
            )
            for partition in (0, 1)
            if (log := self.logs.get((topic, partition)))
        }

    def waiting_of(self, until: datetime) -> list[tuple[str, int]]:
        """Return where documents wait that came in before a time."""
        return [
            place for place, log in self.logs.items() if any(came_at < until for _, came_at in log[self.heads[place] :])
        ]


SKEW = st.integers(-29, 29)  # two clocks that are apart by less than the grace
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.sampled_from(["in", "in", "a"]), st.integers(0, 1), SKEW),
        st.tuples(st.just("drain"), st.sampled_from(["in", "a", "b", "c"]), st.integers(1, 3), st.integers(0, 3), SKEW),
        st.tuples(st.just("wait"), st.sampled_from([10, 70, 300])),
    ),
    max_size=40,
)


@pytest.mark.parametrize(("name", "stages"), [("diamond", DIAMOND), ("loop", LOOP)])
@settings(max_examples=200)
@given(acts=ACTS)
def test_no_document_of_a_complete_hour_waits_anywhere(name, stages, acts):
    world = World(FEEDS[name])
    for act, *values in acts:
        if act == "arrive":
            world.write(*values)
        elif act == "drain":
            world.drain(*values)
        else:
            world.now += timedelta(seconds=values[0])
        for until in next_hours(None, NOON - HOUR, world.now, GRACE, 5):
            proof = prove_hour(until, stages, world.look, world.recorded, GRACE)
            assert proof.missing or not world.waiting_of(until), f"{until}: {proof}"


@given(acts=ACTS)
def test_an_hour_is_complete_when_all_is_drained(acts):
    world = World(FEEDS["diamond"])
    for act, *values in acts:
        if act == "arrive":
            world.write(*values)
    world.now += 2 * HOUR
    for topic in ["in", "a", "b", "c"]:
        world.drain(topic, 10_000, 0, 0)

    assert prove_hour(NOON, DIAMOND, world.look, world.recorded, GRACE).missing == ""


def test_records_that_keep_arriving_do_not_keep_an_hour_open():
    world = World({"in": "a", "a": ""}, now=NOON - timedelta(minutes=5))
    stages = (Stage(("in",), ()), Stage(("a",), ("in",)))
    world.write("in", 0, 0)
    world.now = NOON + timedelta(minutes=5)
    world.write("in", 0, 0)
    world.drain("in", 1, 0, 0)
    first = prove_hour(NOON, stages, world.look, world.recorded, GRACE)
    world.drain("a", 1, 0, 0)
    world.now += timedelta(minutes=5)
    world.drain("in", 1, 0, 0)  # the record of the next hour, which now waits in the second topic

    proof = prove_hour(NOON, stages, world.look, world.recorded, GRACE)

    assert first.missing == "a[0] is drained to 0 of 1"
    assert (proof.missing, proof.bounds) == ("", {0: 1})
    assert world.waiting_of(NOON + HOUR) == [("a", 0)]


def test_the_hours_to_look_at_follow_the_last_one_up_to_the_last_that_is_over():
    now = NOON + timedelta(seconds=61)

    assert next_hours(NOON - 2 * HOUR, None, now, GRACE, 24) == [NOON - HOUR, NOON]
    assert next_hours(NOON - 2 * HOUR, None, now - GRACE, GRACE, 24) == [NOON - HOUR]
    assert next_hours(NOON - 9 * HOUR, None, now, GRACE, 2) == [NOON - 8 * HOUR, NOON - 7 * HOUR]
    assert next_hours(NOON, None, now, GRACE, 24) == []


def test_the_first_hours_to_look_at_begin_with_the_oldest_record_at_most_so_many_ago():
    now = NOON + timedelta(minutes=30)

    assert next_hours(None, None, now, GRACE, 24) == []
    assert next_hours(None, NOON - timedelta(minutes=90), now, GRACE, 24) == [NOON - HOUR, NOON]
    assert next_hours(None, NOON - 500 * HOUR, now, GRACE, 2) == [NOON - HOUR, NOON]
    assert next_hours(None, now, now, GRACE, 24) == []


def test_a_record_behind_the_end_of_its_hour_is_late_and_counts_for_that_hour():
    hours = [(NOON, {0: 5}), (NOON + HOUR, {0: 9})]
    records = [
        (0, 3, NOON - timedelta(minutes=10)),
        (0, 4, NOON - timedelta(minutes=90)),  # in the first hour, and of the one before
        (0, 6, NOON - timedelta(minutes=1)),  # in the second hour, and of the first
        (0, 7, NOON + timedelta(minutes=1)),
        (0, 9, NOON - timedelta(minutes=1)),  # of an hour that is not complete yet
    ]

    assert count_late(records, hours) == {NOON - 2 * HOUR: 1, NOON - HOUR: 1}


def test_the_stages_of_a_datasource_are_the_topics_that_its_documents_can_reach():
    text = """
graph: g
cluster: main
datasources:
  - {id: one, account: acme, entry: split}
  - {id: two, account: acme, entry: aside}
nodes:
  - {id: split, module: "python:a.b:c"}
  - {id: unpack, module: "python:a.b:c"}
  - {id: keep, module: "python:a.b:c"}
  - {id: aside, type: connector}
edges:
  - {from: split, to: unpack}
  - {from: unpack, to: split, max_hops: 3}
  - {from: split, to: keep}
"""
    graph = check_graph_text(text.encode(), "g").require()

    one = {stage.topics: (stage.fed_by, stage.is_cycle) for stage in stages_behind(graph, "intake.one")}
    cycle = ("pipestream.main.split", "pipestream.main.unpack")
    assert list(one) == [("intake.one",), cycle, ("pipestream.main.keep",)]
    assert one[cycle] == (("intake.one",), True)
    assert set(one["pipestream.main.keep",][0]) == {"intake.one", "pipestream.main.split"}
    assert [stage.topics for stage in stages_behind(graph, "intake.two")] == [("intake.two",)]

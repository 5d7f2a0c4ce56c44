"""Workers share slots fairly, each by its own decision."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestream.leases.shares import fair_shares
from pipestream.stream.shares import Decision, Sighting, SlotKey, decide

SLOTS = [SlotKey(f"intake.d{number}@g", 0) for number in range(6)]


@pytest.mark.parametrize(
    ("slots", "room", "held", "shares"),
    [
        pytest.param(6, {"a": 16, "b": 16}, {}, {"a": 3, "b": 3}, id="even"),
        pytest.param(6, {"a": 2, "b": 16}, {}, {"a": 2, "b": 4}, id="as its room allows"),
        pytest.param(6, {"a": 2, "b": 2}, {}, {"a": 2, "b": 2}, id="less room than slots"),
        pytest.param(1, {"a": 16, "b": 16}, {"b": 1}, {"a": 0, "b": 1}, id="the rest stays where it is"),
        pytest.param(0, {"a": 16}, {}, {"a": 0}, id="nothing to share"),
        pytest.param(5, {"a": 9, "b": 9, "c": 9}, {"c": 5}, {"a": 2, "b": 1, "c": 2}, id="the holder keeps more"),
    ],
)
def test_shares_are_as_even_as_the_room_of_the_workers_allows(slots, room, held, shares):
    assert fair_shares(slots, room, held) == shares


def test_a_worker_alone_acquires_everything():
    decision = decide("a", [], Sighting({"a": 16}, SLOTS, {}))

    assert sorted(decision.acquire) == SLOTS
    assert decision.give_up == ()


def test_a_worker_never_acquires_more_than_it_has_room_for():
    assert len(decide("a", [], Sighting({"a": 4}, SLOTS, {})).acquire) == 4


def test_a_worker_that_holds_all_gives_up_the_share_of_one_that_comes():
    seen = Sighting({"a": 16, "b": 16}, SLOTS, dict.fromkeys(SLOTS, "a"))

    assert decide("a", SLOTS, seen) == Decision(give_up=tuple(SLOTS[3:]))
    assert decide("b", [], seen) == Decision()


def test_slots_that_are_not_wanted_any_more_are_given_up_whoever_is_there():
    assert decide("a", SLOTS, Sighting({"a": 16}, SLOTS[:4], {})).give_up == tuple(SLOTS[4:])


def test_a_slot_that_a_batch_run_holds_is_nobodys_share():
    seen = Sighting({"a": 16, "b": 16}, SLOTS, {SLOTS[0]: "run-1@host:7", SLOTS[1]: "run-1@host:7"})

    assert len(decide("a", [], seen).acquire) == 2
    assert not {SLOTS[0], SLOTS[1]} & set(decide("a", [], seen).acquire)


def test_a_slot_to_keep_is_not_given_up():
    seen = Sighting({"a": 16, "b": 16}, SLOTS, dict.fromkeys(SLOTS, "a"))

    assert set(decide("a", SLOTS, seen, keep=SLOTS[1:]).give_up) == {SLOTS[0]}


def test_workers_that_start_together_try_different_slots_first():
    workers = {f"worker-{number}": 16 for number in range(8)}
    firsts = {decide(worker, [], Sighting(workers, SLOTS * 3, {})).acquire[0] for worker in workers}

    assert len(firsts) > 1


@st.composite
def situations(draw):
    """Some slots, workers with room, and any distribution of the first over the second."""
    slots = [SlotKey(f"intake.d{number}@g", 0) for number in range(draw(st.integers(0, 12)))]
    rooms = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
    workers = {f"worker-{number}": room for number, room in enumerate(rooms)}
    holders = {}
    for slot in slots:
        holder = draw(st.sampled_from(["", *workers]))
        if holder and sum(each == holder for each in holders.values()) < workers[holder]:
            holders[slot] = holder
    return slots, workers, holders


def _of(worker, holders):
    return [slot for slot, holder in holders.items() if holder == worker]


@given(situations())
@settings(max_examples=100, deadline=None)
def test_what_all_give_up_at_once_is_what_the_others_lack_and_no_more(situation):
    slots, workers, holders = situation
    seen = Sighting(workers, slots, holders)
    held = {worker: len(_of(worker, holders)) for worker in workers}
    shares = fair_shares(len(slots), workers, held)

    given_up = {worker: decide(worker, _of(worker, holders), seen).give_up for worker in workers}

    lacking = sum(max(0, shares[worker] - held[worker]) for worker in workers)
    free = len(slots) - sum(held.values())
    assert sum(map(len, given_up.values())) <= max(0, lacking - min(free, lacking))
    assert all(held[worker] - len(given_up[worker]) >= min(held[worker], shares[worker]) for worker in workers)


@given(situations(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_whatever_the_start_and_the_order_all_room_is_used_and_the_shares_are_even(situation, random):
    slots, workers, holders = situation
    for _ in range(3):  # rounds: everyone gives up, then everyone acquires, in any order and with what is true then
        for worker in random.sample(sorted(workers), len(workers)):
            mine = _of(worker, holders)
            decision = decide(worker, mine, Sighting(workers, slots, dict(holders)))
            for slot in decision.give_up:
                del holders[slot]
            for slot in decision.acquire:
                if slot not in holders:
                    holders[slot] = worker
            assert len(_of(worker, holders)) <= workers[worker]

    counts = {worker: len(_of(worker, holders)) for worker in workers}
    assert sum(counts.values()) == min(len(slots), sum(workers.values()))
    assert counts == fair_shares(len(slots), workers, counts)
    settled = dict(holders)
    for worker in workers:
        assert decide(worker, _of(worker, holders), Sighting(workers, slots, settled)) == Decision()


def share_with_a_worker_of_some(slots, workers, holders, some, orders):
    """Let workers share next to one that takes free slots of ``some`` only; ``orders`` has who decides when."""
    for order in orders:
        for worker in order:
            alone = worker == "of some"
            seen = Sighting(
                {worker: workers[worker]} if alone else {each: workers[each] for each in workers if each != "of some"},
                some if alone else slots,
                dict(holders),
            )
            decision = decide(worker, _of(worker, holders), seen)
            for slot in decision.give_up:
                del holders[slot]
            holders.update(dict.fromkeys(decision.acquire, worker))


@given(situations(), st.randoms(use_true_random=False), st.data())
@settings(max_examples=100, deadline=None)
def test_next_to_a_worker_that_takes_what_is_free_of_some_slots_every_slot_is_drained(situation, random, data):
    slots, workers, holders = situation
    some = data.draw(st.lists(st.sampled_from(slots), unique=True)) if slots else []
    room = {**workers, "of some": data.draw(st.integers(1, 8))}
    # It may take what was given up for another worker. Each slot that it takes changes the shares once more.
    rounds = 3 + room["of some"]
    share_with_a_worker_of_some(
        slots, room, holders, some, [random.sample(sorted(room), len(room)) for _ in range(rounds)]
    )

    lone = _of("of some", holders)
    assert len(holders) >= min(len(slots), sum(workers.values()) + len(lone))
    assert set(some) <= set(holders) or len(lone) == room["of some"]


def test_a_slot_taken_from_under_the_worker_it_was_given_up_for_is_made_up_in_the_next_round():
    slots = SLOTS[:5]
    workers = {"worker-0": 2, "worker-1": 2, "worker-2": 1, "of some": 2}
    holders = {slots[0]: "worker-0", slots[1]: "worker-0", slots[3]: "worker-1"}
    orders = [
        ("worker-1", "of some", "worker-0", "worker-2"),
        ("worker-0", "of some", "worker-2", "worker-1"),
        ("of some", "worker-2", "worker-0", "worker-1"),
    ]
    some = [slots[0], slots[2], slots[4]]
    share_with_a_worker_of_some(slots, workers, holders, some, orders)
    # worker-1 gave slot 4 up for worker-2, and the worker of some took it; worker-0 now makes room.
    assert set(slots) - set(holders) == {slots[1]}

    share_with_a_worker_of_some(slots, workers, holders, some, [("worker-2", "worker-1", "worker-0", "of some")])

    assert set(holders) == set(slots)
    assert _of("worker-2", holders) == [slots[1]]

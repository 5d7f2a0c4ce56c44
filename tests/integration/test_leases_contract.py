"""What every lease store promises, on real servers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from pipestream.errors import IdInvalid, LeaseLost, LeaseUnavailable
from pipestream.leases import Assignment, DesiredState, TopicMode, open_lease_store
from pipestream.leases.names import lease_name
from pipestream.leases.store import lay_out
from pipestream.topic_names import (
    bridge_topic,
    dead_letter_topic,
    intake_dead_letter_topic,
    intake_topic,
    node_topic,
)

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]

TTL_S = 60.0
SHORT_S = 8.0
coordinated = pytest.mark.parametrize("kind", ["consul", "file", "sql"])
every_kind = pytest.mark.parametrize("kind", ["consul", "file", "sql", "none"])


@pytest.fixture
def open_store(settings, kind):
    """Return a function that opens one more store on the same server, as another worker would."""
    opened = []

    def open_one():
        opened.append(open_lease_store(settings.model_copy(update={"leases": kind})))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def topic(unique, store):
    yield (name := node_topic(unique, "parser"))
    store.unregister([name])


@every_kind
def test_acquiring_returns_what_was_asked_for(store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)

    assert (lease.topic, lease.slot, lease.holder, lease.ttl_s) == (topic, 0, "worker-a", TTL_S)


@coordinated
def test_a_second_acquirer_is_told_who_holds_the_slot(open_store, store, topic):
    store.acquire(topic, 0, "worker-a", TTL_S)

    with pytest.raises(LeaseUnavailable, match=f"{topic} slot 0 is leased by worker-a") as caught:
        open_store().acquire(topic, 0, "worker-b", TTL_S)

    assert (caught.value.topic, caught.value.slot, caught.value.holder) == (topic, 0, "worker-a")


@coordinated
def test_a_second_process_with_the_holders_name_is_refused(open_store, store, topic):
    store.acquire(topic, 0, "worker-a", TTL_S)

    with pytest.raises(LeaseUnavailable, match="leased by worker-a"):
        open_store().acquire(topic, 0, "worker-a", TTL_S)


@coordinated
def test_a_refused_acquirer_does_not_disturb_the_holder(open_store, store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    with pytest.raises(LeaseUnavailable):
        open_store().acquire(topic, 0, "worker-b", TTL_S)

    store.renew(lease)

    assert [found.holder for found in store.assignments(topic)] == ["worker-a"]


@coordinated
def test_a_renewed_lease_keeps_its_token(store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)

    store.renew(lease)
    store.renew(lease)

    [found] = store.assignments(topic)
    assert found.token == lease.token


@coordinated
def test_release_lets_the_next_one_in_at_once(open_store, store, topic):
    store.release(store.acquire(topic, 0, "worker-a", TTL_S))

    assert open_store().acquire(topic, 0, "worker-b", TTL_S).holder == "worker-b"


@coordinated
def test_a_released_lease_cannot_be_renewed(store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.release(lease)

    with pytest.raises(LeaseLost, match=topic):
        store.renew(lease)


@every_kind
def test_releasing_twice_changes_nothing(open_store, store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.release(lease)
    store.release(lease)

    assert [found.holder for found in store.assignments(topic)] == [""]


@coordinated
def test_the_token_grows_with_every_new_holder(open_store, store, topic):
    tokens = []
    for worker in (store, open_store(), store):
        lease = worker.acquire(topic, 0, "worker", TTL_S)
        tokens.append(lease.token)
        worker.release(lease)

    assert tokens == sorted(set(tokens))
    assert tokens[0] > 0


@coordinated
@pytest.mark.parametrize("slot", [0, 2])
def test_the_token_grows_also_when_the_topic_was_forgotten_in_between(store, topic, slot):
    before = store.acquire(topic, slot, "worker-a", TTL_S)
    store.unregister([topic])
    store.register([topic])

    assert store.acquire(topic, slot, "worker-b", TTL_S).token > before.token


@coordinated
def test_an_earlier_lease_of_the_same_holder_does_not_disturb_its_later_one(open_store, store, topic):
    earlier = store.acquire(topic, 0, "worker-a", TTL_S)
    store.release(earlier)
    later = open_store().acquire(topic, 0, "worker-a", TTL_S)

    with pytest.raises(LeaseLost, match=r"worker-a holds it now|session ended"):
        store.renew(earlier)
    store.release(earlier)

    store.renew(later)


@coordinated
def test_unregistering_takes_the_lease_away_from_its_holder(store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.unregister([topic])

    with pytest.raises(LeaseLost, match="unregistered"):
        store.renew(lease)


@coordinated
def test_a_lease_that_is_not_renewed_goes_to_the_next_one_and_its_old_holder_is_harmless(open_store, store, topic):
    begun = datetime.now(UTC)
    lost = store.acquire(topic, 0, "worker-a", SHORT_S)
    acquiring = datetime.now(UTC) - begun
    [shown] = store.assignments(topic)
    other = open_store()

    assert other.wait_free(topic, 0, 120)
    # It was not free before it was said to be; it may have been counted from any moment of the acquisition.
    assert begun + timedelta(seconds=SHORT_S) <= shown.until <= datetime.now(UTC) + acquiring
    with pytest.raises(LeaseLost, match=r"ran out|not renewed in time"):
        store.renew(lost)  # also while nobody has taken it yet
    taken = other.acquire(topic, 0, "worker-b", TTL_S)

    assert taken.token > lost.token
    with pytest.raises(LeaseLost):
        store.renew(lost)
    store.release(lost)
    other.renew(taken)
    [found] = store.assignments(topic)
    assert (found.holder, found.token) == ("worker-b", taken.token)


@coordinated
def test_exactly_one_of_two_racing_acquirers_wins(open_store, kind, store, topic):
    rounds = 15 if kind == "consul" else 50
    workers = [open_store(), open_store()]
    start = threading.Barrier(2)

    def race(index):
        start.wait(120)
        try:
            return workers[index].acquire(topic, 0, f"worker-{index}", TTL_S)
        except LeaseUnavailable as refused:
            return refused

    tokens = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            outcomes = list(pool.map(race, range(2)))
            [refused] = [outcome for outcome in outcomes if isinstance(outcome, LeaseUnavailable)]
            [won] = [outcome for outcome in outcomes if outcome is not refused]
            assert refused.holder == won.holder
            tokens.append(won.token)
            store.release(won)

    assert tokens == sorted(set(tokens))


@coordinated
def test_slots_are_held_independently(open_store, store, topic):
    first = store.acquire(topic, 0, "worker-a", TTL_S)
    second = open_store().acquire(topic, 1, "worker-b", TTL_S)

    store.release(first)
    store.renew(second)

    store.set_desired(topic, DesiredState(replicas=3))
    assert [(a.slot, a.holder) for a in store.assignments(topic)] == [(0, ""), (1, "worker-b"), (2, "")]


@coordinated
def test_topics_whose_names_begin_alike_are_held_independently(store, unique):
    short, long = node_topic(unique, "chunk"), node_topic(unique, "chunker")
    store.acquire(short, 0, "worker-a", TTL_S)
    lease = store.acquire(long, 1, "worker-b", TTL_S)

    store.unregister([short])

    store.renew(lease)
    assert [found.holder for found in store.assignments(long)] == ["", "worker-b"]
    store.unregister([long])


@coordinated
def test_a_slot_beyond_the_replicas_is_shown_while_it_is_held(store, topic):
    store.acquire(topic, 2, "worker-c", TTL_S)

    assert [(found.slot, found.holder) for found in store.assignments(topic)] == [(0, ""), (2, "worker-c")]


@every_kind
def test_every_kind_of_topic_can_be_registered_and_forgotten(store, unique):
    topics = [
        intake_topic(unique),
        node_topic(unique, "parser"),
        bridge_topic(unique, "parser"),
        dead_letter_topic(unique, "parser"),
        intake_dead_letter_topic(unique),
    ]

    store.register(topics)
    assert [topic for topic in store.topics() if unique in topic] == sorted(topics)
    assert [a for a in store.assignments() if unique in a.topic] == lay_out(dict.fromkeys(topics, 1), [])

    store.unregister(topics)
    assert [topic for topic in store.topics() if unique in topic] == []


@every_kind
def test_registering_again_keeps_the_desired_state(store, topic):
    store.set_desired(topic, DesiredState(started=False))

    store.register([topic])

    assert store.desired(topic) == DesiredState(started=False)


@coordinated
def test_registering_again_does_not_disturb_the_holder(open_store, store, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)

    open_store().register([topic])

    store.renew(lease)
    [found] = store.assignments(topic)
    assert (found.holder, found.token) == ("worker-a", lease.token)


@every_kind
def test_forgetting_a_topic_forgets_its_desired_state(store, topic):
    store.set_desired(topic, DesiredState(started=False))

    store.unregister([topic])
    store.register([topic])

    assert store.desired(topic) == DesiredState()


@every_kind
def test_a_topic_nobody_spoke_of_is_started_with_one_replica(store, topic):
    assert store.desired(topic) == DesiredState(started=True, replicas=1)
    assert topic not in store.topics()


@coordinated
def test_the_desired_state_is_seen_by_every_worker(open_store, store, topic):
    store.set_desired(topic, DesiredState(started=False, replicas=3))
    other = open_store()
    assert other.desired(topic) == DesiredState(started=False, replicas=3)

    other.set_desired(topic, DesiredState(started=True, replicas=2))
    assert store.desired(topic) == DesiredState(started=True, replicas=2)


@every_kind
def test_a_topics_mode_is_kept_and_is_batch_until_it_is_set(store, topic):
    assert store.desired(topic).mode is TopicMode.BATCH

    store.set_desired(topic, DesiredState(mode=TopicMode.STREAMING))
    store.register([topic])

    assert store.desired(topic) == DesiredState(mode=TopicMode.STREAMING)


@every_kind
def test_setting_a_desired_state_and_acquiring_register_the_topic(store, unique):
    wanted, leased = node_topic(unique, "wanted"), node_topic(unique, "leased")

    store.set_desired(wanted, DesiredState(started=False))
    store.acquire(leased, 1, "worker-a", TTL_S)

    assert {wanted, leased} <= set(store.topics())
    store.unregister([wanted, leased])


@every_kind
@pytest.mark.parametrize(
    "use",
    [
        lambda store, name: store.register([name]),
        lambda store, name: store.unregister([name]),
        lambda store, name: store.desired(name),
        lambda store, name: store.set_desired(name, DesiredState()),
        lambda store, name: store.acquire(name, 0, "worker-a", TTL_S),
        lambda store, name: store.wait_free(name, 0, 0),
        lambda store, name: store.assignments(name),
    ],
    ids=["register", "unregister", "desired", "set_desired", "acquire", "wait_free", "assignments"],
)
def test_a_name_that_is_not_a_topic_of_ours_is_refused(store, use):
    for name in ("or ders", "intake/../x", "pipestream.a.b.c"):
        with pytest.raises(IdInvalid, match=r"not a topic of this product|cannot be a topic"):
            use(store, name)


@every_kind
@pytest.mark.parametrize(
    ("slot", "holder", "ttl_s", "message"),
    [
        pytest.param(-1, "worker-a", 20, "slot must be between 0 and 9999, not -1", id="slot"),
        pytest.param(10_000, "worker-a", 20, "slot must be between 0 and 9999", id="slot too high"),
        pytest.param(0, " ", 20, "holder must be a name", id="no holder"),
        pytest.param(0, "worker\0a", 20, "holder must be a name", id="holder that cannot be shown"),
        pytest.param(0, "worker-a", 0, "ttl_s must be more than 0", id="no time"),
        pytest.param(0, "worker-a", 90_000, "at most 86400", id="over a day"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(store, topic, slot, holder, ttl_s, message):
    with pytest.raises(ValueError, match=message):
        store.acquire(topic, slot, holder, ttl_s)


@coordinated
def test_waiting_ends_as_soon_as_the_holder_releases(open_store, store, topic):
    lease = store.acquire(topic, 0, "worker-a", 3_600)
    waiter = open_store()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.wait_free, topic, 0, 500.0)
        assert not waiter.wait_free(topic, 0, 0.3)
        assert not waiting.done()

        store.release(lease)

        # Before the lease ran out, and before the wait was over: it is the release that was noticed.
        assert waiting.result(timeout=120)


@coordinated
def test_waiting_for_a_held_slot_ends_with_the_timeout(open_store, store, topic):
    store.acquire(topic, 0, "worker-a", TTL_S)

    assert not open_store().wait_free(topic, 0, 0.2)
    assert not open_store().wait_free(topic, 0, 0)


@every_kind
def test_waiting_for_a_slot_that_is_free_does_not_wait(store, topic):
    assert store.wait_free(topic, 0, 30.0)


@coordinated
def test_one_store_serves_several_threads(store, unique):
    topics = [node_topic(unique, f"n{index}") for index in range(8)]

    def hold(topic):
        lease = store.acquire(topic, 0, "worker", TTL_S)
        for _ in range(3):
            store.renew(lease)
        store.release(lease)
        return lease.token

    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(hold, topics))

    assert len(set(tokens)) == len(topics)
    store.unregister(topics)


@coordinated
@pytest.mark.parametrize("slot", [0, 2])
def test_the_store_tells_when_a_lease_runs_out_and_each_renewal_puts_that_off(store, topic, slot):
    ends = []
    before = datetime.now(UTC)
    lease = store.acquire(topic, slot, "worker-a", TTL_S)
    for _ in range(3):
        ends.append(store.assignments(topic)[-1].until)
        store.renew(lease)

    assert ends == sorted(set(ends))
    assert before + timedelta(seconds=TTL_S) <= ends[0]
    assert ends[-1] <= datetime.now(UTC) + timedelta(seconds=store.longest_expiry_s(TTL_S))


@every_kind
def test_a_free_slot_has_no_end(store, topic):
    store.release(store.acquire(topic, 0, "worker-a", TTL_S))

    assert store.assignments(topic) == [Assignment(topic, 0, holder="", token=0, until=None)]


@coordinated
def test_two_graphs_lease_the_same_slot_of_a_topic_and_backfills_lease_their_own(open_store, store, topic):
    names = [lease_name(topic, lane) for lane in ("g", "h", "g@march", "h@march")]

    for name in names:
        store.acquire(name, 0, f"run of {name}", TTL_S)

    held = [(found.topic, found.lane, found.holder) for found in open_store().assignments(topic)]
    assert held == [(topic, lane, f"run of {topic}@{lane}") for lane in ("g", "g@march", "h", "h@march")]
    with pytest.raises(LeaseUnavailable, match=f"leased by run of {topic}@g"):
        open_store().acquire(names[0], 0, "another run", TTL_S)


@coordinated
def test_the_replicas_of_a_topic_hold_for_every_graph_that_drains_it(store, topic):
    store.register([lease_name(topic, "g"), lease_name(topic, "h")])
    store.set_desired(topic, DesiredState(replicas=2))

    slots = [(found.lane, found.slot) for found in store.assignments(topic)]

    assert slots == [("g", 0), ("g", 1), ("h", 0), ("h", 1)]
    assert store.topics().count(topic) == 1


@coordinated
def test_the_slots_of_one_graph_can_be_asked_for(store, topic):
    store.set_desired(topic, DesiredState(replicas=2))
    store.acquire(lease_name(topic, "g"), 1, "worker-a", TTL_S)
    store.acquire(lease_name(topic, "h"), 0, "worker-b", TTL_S)

    slots = [(found.slot, found.holder) for found in store.assignments(lease_name(topic, "g"))]

    assert slots == [(0, ""), (1, "worker-a")]


@every_kind
def test_a_topic_is_forgotten_with_all_its_lanes_and_no_other_topic(store, topic, unique):
    longer = node_topic(unique, "parser2")
    store.register([topic, lease_name(topic, "g"), lease_name(topic, "g@march"), longer, lease_name(longer, "g")])

    store.unregister([topic])

    assert store.assignments(topic) == []
    assert {found.name for found in store.assignments(longer)} == {lease_name(longer, "g")}
    store.unregister([longer])


@every_kind
def test_a_lane_is_forgotten_alone(store, topic):
    store.register([topic, lease_name(topic, "g"), lease_name(topic, "h")])

    store.unregister([lease_name(topic, "g")])

    assert [found.lane for found in store.assignments(topic)] == ["h"]


@pytest.mark.parametrize("kind", ["none"])
def test_without_leases_everyone_gets_every_slot_with_token_0(open_store, store, topic):
    leases = [worker.acquire(topic, 0, "worker", TTL_S) for worker in (store, store, open_store())]

    assert [lease.token for lease in leases] == [0, 0, 0]
    for lease in leases:
        store.renew(lease)
    assert store.assignments(topic) == [Assignment(topic, 0, holder="", token=0)]

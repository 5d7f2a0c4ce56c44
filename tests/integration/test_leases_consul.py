"""What is special about leases in Consul: its keys, its sessions and its failures."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import consul
import pytest

from pipestream.errors import LeaseLost, LeaseStoreUnavailable, LeaseUnavailable
from pipestream.leases import LeaseKeeper
from pipestream.leases.consul import ConsulLeaseStore
from pipestream.leases.store import DesiredState
from pipestream_testing.faulty import FaultyProxy, Trouble
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]

TTL_S = 60.0


@pytest.fixture
def store(settings):
    yield (opened := ConsulLeaseStore(settings))
    opened.close()


@pytest.fixture
def client(settings):
    """A plain client, to look behind the store and to be another program."""
    host, port = settings.consul_address.split(":")
    yield (opened := consul.Consul(host=host, port=int(port)))
    opened.http.session.close()


@pytest.fixture
def key(unique, client):
    yield (name := f"pipestream/node-topics/{unique}.parser")
    client.kv.delete(name, recurse=True)


@pytest.fixture
def topic(unique, key):
    return f"pipestream.{unique}.parser"


@pytest.fixture
def waiter(settings):
    """A store that counts the requests it sends, as ``requests``."""
    opened = ConsulLeaseStore(settings)
    opened.requests = []
    session = opened._consul.http.session
    send = session.send

    def note_and_send(request, **options):
        opened.requests.append(request.url)
        return send(request, **options)

    session.send = note_and_send
    yield opened
    opened.close()


def test_waiting_does_not_poll_it_asks_once_and_then_lets_consul_answer_when_it_will(store, waiter, topic):
    store.acquire(topic, 0, "worker-a", TTL_S)
    started_s = time.monotonic()

    assert not waiter.wait_free(topic, 0, 4.0)

    assert time.monotonic() - started_s >= 4.0
    first, blocking = waiter.requests
    assert "index=" not in first
    assert "index=" in blocking


def test_a_release_is_the_answer_to_the_question_that_waits(store, waiter, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.wait_free, topic, 0, 500.0)
        wait_until(lambda: len(waiter.requests) == 2)

        store.release(lease)

        assert waiting.result(timeout=120)
    assert len(waiter.requests) == 2


def test_renewals_do_not_wake_up_those_who_wait(store, waiter, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(waiter.wait_free, topic, 0, 500.0)
        wait_until(lambda: len(waiter.requests) == 2)
        for _ in range(6):
            store.renew(lease)
        assert not waiting.done()
        store.release(lease)

        assert waiting.result(timeout=120)
    assert len(waiter.requests) == 2


def until(store, topic):
    [found] = store.assignments(topic)
    return found.until


def test_a_lease_is_shown_until_two_ttls_after_it_was_acquired_and_then_after_each_renewal(store, topic):
    two_ttls = timedelta(seconds=2 * TTL_S)
    before = datetime.now(UTC)
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    between = datetime.now(UTC)
    acquired = until(store, topic)
    store.renew(lease)
    after = datetime.now(UTC)

    assert before <= acquired - two_ttls <= between
    assert between <= until(store, topic) - two_ttls <= after
    assert {found.topic: found.until for found in store.assignments()}[topic] == until(store, topic)


def test_the_next_holder_is_not_shown_with_the_renewals_of_the_last(store, topic):
    earlier = store.acquire(topic, 0, "worker-a", 3_600)
    store.renew(earlier)
    store.release(earlier)

    later = store.acquire(topic, 0, "worker-b", TTL_S)

    assert until(store, topic) < datetime.now(UTC) + timedelta(seconds=2 * TTL_S + 1)
    store.renew(later)
    assert until(store, topic) < datetime.now(UTC) + timedelta(seconds=2 * TTL_S + 1)


def test_a_holder_that_lost_its_slot_unawares_does_not_write_over_the_next_ones_renewal(store, client, topic, key):
    stale = store.acquire(topic, 0, "worker-a", 3_600)
    client.kv.put(key, "by hand", release=stale.handle)
    store.renew(store.acquire(topic, 0, "worker-b", TTL_S))
    shown = until(store, topic)

    # As if it had looked before the lock was taken off, and writes now.
    store._note_renewal(stale)

    assert until(store, topic) == shown


@pytest.mark.parametrize("fields", [{}, {"acquired_at": "lately", "ttl_s": 10}, {"acquired_at": None, "ttl_s": "10"}])
def test_the_lock_of_another_program_is_shown_by_its_session_and_without_an_end(store, client, topic, key, fields):
    session = client.session.create(ttl=60, lock_delay=0)
    assert client.kv.put(key, json.dumps({"session": session, **fields}), acquire=session)

    [found] = store.assignments(topic)

    assert (found.holder, found.until) == (f"Consul session {session}", None)
    client.session.destroy(session)


def test_an_unregistered_topic_leaves_no_renewals_behind(store, client, topic):
    leases = [store.acquire(topic, slot, "worker-a", TTL_S) for slot in (0, 1)]
    for lease in leases:
        store.renew(lease)
    assert len(client.kv.get(f"pipestream/renewals/{topic}/", keys=True)[1]) == 2

    store.unregister([topic])

    assert client.kv.get(f"pipestream/renewals/{topic}/", keys=True)[1] is None


def test_a_lease_is_renewed_although_its_renewal_cannot_be_written_down(settings, topic, caplog):
    with FaultyProxy(*settings.consul_address.split(":")) as proxy:
        address = proxy.url.removeprefix("http://")
        store = ConsulLeaseStore(settings.model_copy(update={"consul_address": address}))
        lease = store.acquire(topic, 0, "worker-a", TTL_S)
        proxy.make(Trouble.BUSY, times=1, method="PUT", part="/renewals/")

        store.renew(lease)

        assert proxy.made == 1
        store.close()
    assert f"{topic} slot 0: renewed, but `until` will not show it: Consul at {address}" in caplog.text


def test_a_holder_that_consul_does_not_answer_for_two_thirds_of_the_ttl_stops_and_says_why(settings, topic):
    told = []
    with FaultyProxy(*settings.consul_address.split(":")) as proxy:
        address = proxy.url.removeprefix("http://")
        store = ConsulLeaseStore(settings.model_copy(update={"consul_address": address}))
        with LeaseKeeper(store, store.acquire(topic, 0, "worker-a", 10.0), on_lost=told.append) as keeper:
            proxy.make(Trouble.BUSY, times=1_000, part="/session/renew/")

            assert keeper.lost.wait(120)
            cause = rf"renewals have failed for \d+\.\d s: Consul at {address} cannot answer now: 503 .*busy on purpose"
            with pytest.raises(LeaseLost, match=rf"{topic} slot 0: the lease was lost \({cause}"):
                keeper.check()
        store.close()
    assert [str(error) for error in told] == [str(LeaseLost(topic, 0, told[0].reason))]


def test_slot_0_locks_the_topics_own_key_and_slot_1_a_key_under_it(store, client, topic, key):
    leases = [store.acquire(topic, slot, f"worker-{slot}", TTL_S) for slot in (0, 1)]

    for lease, place in zip(leases, (key, f"{key}/slots/1"), strict=True):
        _, entry = client.kv.get(place)
        value = json.loads(entry["Value"])
        assert entry["Session"] == lease.handle
        assert entry["ModifyIndex"] == lease.token
        assert (value["holder"], value["session"]) == (lease.holder, lease.handle)
        assert value["acquired_at"].endswith("+00:00")
        assert value["ttl_s"] == TTL_S


def test_a_session_releases_without_delay_and_its_ttl_is_raised_to_what_consul_allows(store, client, topic):
    lease = store.acquire(topic, 0, "worker-a", 3.5)

    _, session = client.session.info(lease.handle)

    assert lease.ttl_s == 10.0
    assert (session["Name"], session["TTL"]) == ("worker-a", "10s")
    assert (session["Behavior"], session["LockDelay"]) == ("release", 0)


def test_a_ttl_between_two_seconds_is_rounded_up(store, topic):
    assert store.acquire(topic, 0, "worker-a", 20.2).ttl_s == 21.0


def test_a_crash_frees_the_slot_at_once_and_leaves_the_registration(store, client, topic):
    lost = store.acquire(topic, 0, "worker-a", TTL_S)
    store.set_desired(topic, DesiredState(replicas=2))

    client.session.destroy(lost.handle)

    assert topic in store.topics()
    assert store.desired(topic) == DesiredState(replicas=2)
    assert [found.holder for found in store.assignments(topic)] == ["", ""]
    with pytest.raises(LeaseLost, match="its Consul session ended"):
        store.renew(lost)
    assert store.acquire(topic, 0, "worker-b", TTL_S).token > lost.token


def test_a_lock_that_an_operator_took_off_is_noticed_by_the_next_renewal(store, client, topic, key):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    client.kv.put(key, "by hand", release=lease.handle)

    with pytest.raises(LeaseLost, match="the lock was taken off"):
        store.renew(lease)


def test_a_lock_that_went_to_another_is_noticed_by_the_next_renewal(store, client, topic, key):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    client.kv.put(key, "by hand", release=lease.handle)
    taken = store.acquire(topic, 0, "worker-b", TTL_S)

    with pytest.raises(LeaseLost, match="worker-b holds it now"):
        store.renew(lease)
    store.release(lease)
    store.renew(taken)


def test_a_refused_acquirer_leaves_no_session_behind(store, client, topic, unique):
    store.acquire(topic, 0, "worker-a", TTL_S)
    with pytest.raises(LeaseUnavailable):
        store.acquire(topic, 0, f"refused-{unique}", TTL_S)

    _, sessions = client.session.list()

    assert f"refused-{unique}" not in [session["Name"] for session in sessions]


def test_a_release_leaves_no_session_behind(store, client, topic):
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.release(lease)

    assert client.session.info(lease.handle)[1] is None


def test_a_registration_by_another_program_counts_although_it_is_empty(store, client, topic, key):
    client.kv.put(key, "")

    assert topic in store.topics()
    assert [found.holder for found in store.assignments(topic)] == [""]
    assert store.acquire(topic, 0, "worker-a", TTL_S).holder == "worker-a"


@pytest.mark.parametrize("value", ["", "sidecar-A", '"text"', '{"holder": "not of this session"}'])
def test_the_lock_of_another_program_is_respected_and_named_by_its_session(store, client, topic, key, value):
    session = client.session.create(ttl=60, lock_delay=0)
    assert client.kv.put(key, value, acquire=session)

    with pytest.raises(LeaseUnavailable, match=f"leased by Consul session {session}"):
        store.acquire(topic, 0, "worker-a", TTL_S)

    client.session.destroy(session)


def test_a_lock_delay_of_another_program_is_respected_and_explained(store, client, topic, key):
    session = client.session.create(ttl=60, lock_delay=60)
    assert client.kv.put(key, '{"holder": "sidecar-A"}', acquire=session)
    client.session.destroy(session)

    with pytest.raises(LeaseUnavailable, match=r"nobody, but Consul still delays its lock \(last: sidecar-A\)"):
        store.acquire(topic, 0, "worker-a", TTL_S)


def test_keys_of_others_below_ours_are_left_alone(store, client, topic, key, unique):
    client.kv.put(f"{key}/notes", "x")
    store.register([topic])

    assert [found.slot for found in store.assignments(topic)] == [0]
    assert [name for name in store.topics() if unique in name] == [topic]


def test_an_agent_that_cannot_be_reached_is_a_transient_error(settings, topic):
    store = ConsulLeaseStore(settings.model_copy(update={"consul_address": "127.0.0.1:1"}))

    with pytest.raises(LeaseStoreUnavailable, match=r"Consul at 127\.0\.0\.1:1 does not answer"):
        store.acquire(topic, 0, "worker-a", TTL_S)
    store.close()


def test_an_agent_that_never_answers_is_given_up(settings, topic, monkeypatch):
    monkeypatch.setattr("pipestream.leases.consul_client.TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        store = ConsulLeaseStore(settings.model_copy(update={"consul_address": address}))

        with pytest.raises(LeaseStoreUnavailable, match="timed out"):
            store.topics()
        store.close()

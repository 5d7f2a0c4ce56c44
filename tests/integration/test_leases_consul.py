"""What is special about leases in Consul: its keys, its sessions, its failures, ACL and TLS."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import consul
import pytest
from pydantic import SecretStr

from pipestream.errors import LeaseLost, LeaseStoreUnavailable, LeaseUnavailable, SettingsInvalid
from pipestream.leases import LeaseKeeper
from pipestream.leases.consul import ConsulLeaseStore
from pipestream.leases.store import DesiredState
from pipestream.local.gotools import CONSUL, find_tool
from pipestream.local.ports import resolve_ports
from pipestream.local.spec import FREE_PORTS
from pipestream.settings import Settings
from pipestream.testing.faulty import FaultyProxy, Trouble

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]

TTL_S = 60.0
TOKEN = "5f6d7b9e-0c3a-4f55-9d7f-0f3f6a1f9c11"


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


def wait_until(condition, timeout_s=120.0):
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return result


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


@pytest.mark.parametrize(
    "value",
    [
        "",
        "stopped",
        "[]",
        '{"started": true}',
        '{"started": 1, "replicas": 1}',
        '{"started": true, "replicas": 0}',
    ],
)
def test_a_desired_state_that_cannot_be_read_is_refused_with_its_key(agent, unique, value):
    # Not in the Consul that all tests share: whoever lists all slots there meanwhile would be refused as well.
    store, topic = ConsulLeaseStore(agent.settings()), f"intake.{unique}"
    store._consul.kv.put(f"pipestream/desired/{topic}", value)
    store.register([topic])

    for read in (store.desired, store.assignments):
        with pytest.raises(SettingsInvalid, match=f"Consul key pipestream/desired/{topic} is not a desired state"):
            read(topic)
    store.unregister([topic])
    store.close()


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


@dataclass
class Agent:
    """A Consul server of a test's own, which may be killed and started again."""

    folder: Path
    port: int
    access: dict[str, object]
    """The settings that say how to get in."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        argv = [str(find_tool(CONSUL, print)), "agent", f"-config-file={self.folder / 'agent.json'}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        store = ConsulLeaseStore(self.settings())
        wait_until(lambda: self.answers(store))
        store.close()

    def answers(self, store) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            store.set_desired("intake.probe", DesiredState())
        except (LeaseStoreUnavailable, SettingsInvalid):  # until it has a leader, and the leader its tokens
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def settings(self, **changes) -> Settings:
        given = {"leases": "consul", "consul_address": f"127.0.0.1:{self.port}"}
        return Settings(**(given | self.access | changes))


def configure(folder, port_kind, **rest):
    """Write the configuration of a lone server, and return the port it is to answer at."""
    ports = resolve_ports(FREE_PORTS, ("consul", "consul_rpc", "consul_serf"))
    config = {
        "server": True,
        "bootstrap": True,
        "datacenter": "local",
        "node_name": "alone",
        "data_dir": str(folder / "data"),
        "bind_addr": "127.0.0.1",
        "client_addr": "127.0.0.1",
        "ports": dict.fromkeys(("http", "https", "serf_wan", "dns", "grpc", "grpc_tls"), -1)
        | {port_kind: ports.consul, "server": ports.consul_rpc, "serf_lan": ports.consul_serf},
        "performance": {"raft_multiplier": 1},
        "connect": {"enabled": False},
        "disable_update_check": True,
    }
    (folder / "agent.json").write_text(json.dumps(config | rest))
    return ports.consul


@pytest.fixture(scope="module")
def agent(stack, tmp_path_factory):
    """With ACL and TLS."""
    folder = tmp_path_factory.mktemp("consul")
    program = str(find_tool(CONSUL, print))
    for command in (
        ("ca", "create"),
        ("cert", "create", "-server", "-dc=local", "-additional-ipaddress=127.0.0.1"),
    ):
        subprocess.run([program, "tls", *command], cwd=folder, check=True, capture_output=True)
    port = configure(
        folder,
        "https",
        acl={"enabled": True, "default_policy": "deny", "tokens": {"initial_management": TOKEN}},
        tls={
            "https": {
                "cert_file": str(folder / "local-server-consul-0.pem"),
                "key_file": str(folder / "local-server-consul-0-key.pem"),
            }
        },
    )
    access = {
        "consul_scheme": "https",
        "consul_token": SecretStr(TOKEN),
        "consul_ca_file": folder / "consul-agent-ca.pem",
    }
    running = Agent(folder, port, access)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def narrow_agent(stack, tmp_path):
    """Takes no more than ten connections of a client at once."""
    running = Agent(tmp_path, configure(tmp_path, "http", limits={"http_max_conns_per_client": 10}), {})
    running.start()
    yield running
    running.kill()


def test_an_agent_with_too_much_to_do_is_a_transient_error_and_the_lease_is_renewed_later(narrow_agent, unique):
    topic = f"intake.{unique}"
    store = ConsulLeaseStore(narrow_agent.settings())
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.close()  # its connection, so that it needs another

    def is_told_to_wait():
        """Take every connection that the agent has to give, and tell whether it says so to one more."""
        occupy(narrow_agent, others)
        try:
            store.renew(lease)
        except LeaseStoreUnavailable as error:
            # It gives itself 10 ms to say so, and a connection that it cuts before that was read tells nothing.
            return "cannot answer now: 429 " in str(error)
        store.close()  # it got one that was counted until it was noticed to be closed
        return False

    with ExitStack() as others:
        wait_until(is_told_to_wait)

    wait_until(lambda: renews(store, lease))
    store.close()


def occupy(agent, connections):
    """Open connections to an agent until it refuses one."""
    while True:
        connection = connections.enter_context(socket.create_connection(("127.0.0.1", agent.port)))
        try:
            connection.sendall(b"GET /v1/status/leader HTTP/1.1\r\nHost: consul\r\n\r\n")
            answer = connection.recv(4_096)
        except ConnectionError:
            return
        if b"200 OK" not in answer:
            return


def renews(store, lease):
    try:
        store.renew(lease)
    except LeaseStoreUnavailable:
        return False
    return True


def test_leases_work_over_tls_with_an_acl_token(agent, unique):
    store = ConsulLeaseStore(agent.settings())
    lease = store.acquire(f"intake.{unique}", 0, "worker-a", TTL_S)

    store.renew(lease)
    assert [found.holder for found in store.assignments(f"intake.{unique}")] == ["worker-a"]
    store.release(lease)
    store.close()


@pytest.mark.parametrize("token", [None, SecretStr("00000000-1111-2222-3333-444444444444")])
def test_a_token_that_may_not_is_refused_with_what_it_needs_and_not_repeated(agent, unique, token):
    store = ConsulLeaseStore(agent.settings(consul_token=token))

    with pytest.raises(SettingsInvalid, match=r"needs session:write and key:write on pipestream/") as caught:
        store.acquire(f"intake.{unique}", 0, "worker-a", TTL_S)

    assert "444444444444" not in str(caught.value)
    store.close()


def test_a_server_with_a_certificate_of_an_unknown_ca_is_not_trusted(agent):
    store = ConsulLeaseStore(agent.settings(consul_ca_file=None))

    with pytest.raises(SettingsInvalid, match="check consul_ca_file and consul_scheme"):
        store.topics()
    store.close()


def test_plain_http_to_a_tls_port_is_explained(agent):
    store = ConsulLeaseStore(agent.settings(consul_scheme="http"))

    with pytest.raises(SettingsInvalid, match="check consul_address and consul_scheme"):
        store.topics()
    store.close()


def test_a_lease_outlives_a_kill_and_restart_of_the_server(agent, unique):
    topic = f"intake.{unique}"
    store = ConsulLeaseStore(agent.settings())
    with LeaseKeeper(store, store.acquire(topic, 0, "worker-a", TTL_S)) as keeper:
        agent.kill()
        with pytest.raises(LeaseStoreUnavailable):
            store.renew(keeper.lease)
        agent.start()

        store.renew(keeper.lease)
        keeper.check()
        with pytest.raises(LeaseUnavailable, match="leased by worker-a"):
            store.acquire(topic, 0, "worker-b", TTL_S)

    assert store.acquire(topic, 0, "worker-b", TTL_S).token > keeper.lease.token
    store.close()

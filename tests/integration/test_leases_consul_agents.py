"""Leases in Consul servers of the tests' own: with ACL and TLS, short of connections, killed and started again."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from pydantic import SecretStr

from pipestream.errors import DesiredStateInvalid, LeaseStoreRefused, LeaseStoreUnavailable, LeaseUnavailable
from pipestream.leases import LeaseKeeper
from pipestream.leases.consul import ConsulLeaseStore
from pipestream.leases.store import DesiredState
from pipestream.local.gotools import CONSUL, find_tool
from pipestream.local.ports import resolve_ports
from pipestream.local.spec import FREE_PORTS
from pipestream.settings import Settings
from pipestream_testing.waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]

REPOSITORY = Path(__file__).resolve().parents[2]
TTL_S = 60.0
TOKEN = "5f6d7b9e-0c3a-4f55-9d7f-0f3f6a1f9c11"


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
        except (LeaseStoreUnavailable, LeaseStoreRefused):  # until it has a leader, and the leader its tokens
            return False
        return True

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(120)

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


@contextmanager
def running(agent):
    """Have an agent inside the block, and no process of it behind the block, though it did not start to answer."""
    try:
        agent.start()
        yield agent
    finally:
        agent.kill()


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
    with running(Agent(folder, port, access)) as started:
        yield started


@pytest.fixture
def narrow_agent(stack, tmp_path):
    """Takes no more than ten connections of a client at once."""
    port = configure(tmp_path, "http", limits={"http_max_conns_per_client": 10})
    with running(Agent(tmp_path, port, {})) as started:
        yield started


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
        with pytest.raises(DesiredStateInvalid, match=f"Consul key pipestream/desired/{topic} is not a desired state"):
            read(topic)
    store.unregister([topic])
    store.close()


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


def put_acl(agent, what, values):
    """Create a policy or a token as the manager. py-consul cannot: it sends the text of a policy as JSON."""
    answer = requests.put(
        f"https://127.0.0.1:{agent.port}/v1/acl/{what}",
        json=values,
        headers={"X-Consul-Token": TOKEN},
        verify=str(agent.access["consul_ca_file"]),
        timeout=60,
    )
    answer.raise_for_status()
    return answer.json()


def test_the_policy_of_the_docs_is_enough_for_leases(agent, unique):
    page = (REPOSITORY / "docs" / "production.md").read_text()
    policy = page.partition("```hcl\n")[2].partition("```")[0]
    put_acl(agent, "policy", {"Name": unique, "Rules": policy})
    token = put_acl(agent, "token", {"Policies": [{"Name": unique}]})["SecretID"]
    store = ConsulLeaseStore(agent.settings(consul_token=SecretStr(token)))
    topic = f"intake.{unique}"

    store.register([topic])
    lease = store.acquire(topic, 0, "worker-a", TTL_S)
    store.renew(lease)
    store.release(lease)
    store.unregister([topic])
    store.close()


@pytest.mark.parametrize("token", [None, SecretStr("00000000-1111-2222-3333-444444444444")])
def test_a_token_that_may_not_is_refused_with_what_it_needs_and_not_repeated(agent, unique, token):
    store = ConsulLeaseStore(agent.settings(consul_token=token))

    with pytest.raises(LeaseStoreRefused, match=r"needs session:write and key:write on pipestream/") as caught:
        store.acquire(f"intake.{unique}", 0, "worker-a", TTL_S)

    assert "444444444444" not in str(caught.value)
    store.close()


def test_a_server_with_a_certificate_of_an_unknown_ca_is_not_trusted(agent):
    store = ConsulLeaseStore(agent.settings(consul_ca_file=None))

    with pytest.raises(LeaseStoreRefused, match="check consul_ca_file and consul_scheme"):
        store.topics()
    store.close()


def test_plain_http_to_a_tls_port_is_explained(agent):
    store = ConsulLeaseStore(agent.settings(consul_scheme="http"))

    with pytest.raises(LeaseStoreRefused, match="check consul_address and consul_scheme"):
        store.topics()
    store.close()


def test_a_lease_outlives_a_kill_and_restart_of_the_server(agent, unique):
    topic = f"intake.{unique}"
    store = ConsulLeaseStore(agent.settings())
    # Long, because the keeper gives up when it could not renew for two thirds of it, however slowly the server starts.
    with LeaseKeeper(store, store.acquire(topic, 0, "worker-a", 10 * TTL_S)) as keeper:
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

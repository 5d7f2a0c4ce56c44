from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import SecretStr

from pipestream.errors import SettingsInvalid
from pipestream.leases import DesiredState, open_lease_store
from pipestream.leases.consul import ConsulLeaseStore
from pipestream.leases.file import FileLeaseStore
from pipestream.leases.none import NoLeaseStore
from pipestream.leases.sql import SqlLeaseStore
from pipestream.settings import Settings


@pytest.mark.parametrize(
    ("name", "kind"),
    [("consul", ConsulLeaseStore), ("file", FileLeaseStore), ("sql", SqlLeaseStore), ("none", NoLeaseStore)],
)
def test_opens_the_store_the_settings_name_without_connecting(name, kind):
    store = open_lease_store(Settings(leases=name, consul_address="127.0.0.1:1", postgres_dsn=SecretStr("port=1")))

    assert isinstance(store, kind)
    store.close()


@pytest.mark.parametrize("address", ["consul", "consul:http", ":8500", ""])
def test_a_consul_address_without_host_and_port_is_refused(address):
    with pytest.raises(SettingsInvalid, match="consul_address must be HOST:PORT"):
        open_lease_store(Settings(leases="consul", consul_address=address))


def test_a_ca_file_that_is_not_there_is_refused(tmp_path):
    missing = tmp_path / "ca.pem"

    with pytest.raises(SettingsInvalid, match=r"ca\.pem, which is not a file"):
        open_lease_store(Settings(leases="consul", consul_scheme="https", consul_ca_file=missing))


def test_the_consul_token_is_the_settings_own_and_not_the_environments(monkeypatch):
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", "of-the-environment")

    given = open_lease_store(Settings(leases="consul", consul_token=SecretStr("of-the-settings")))
    absent = open_lease_store(Settings(leases="consul"))

    assert given._consul.token == "of-the-settings"
    assert absent._consul.token is None


@pytest.mark.parametrize("dsn", ["postgres:hunter2@nowhere", "hunter2", "host=x password=hunter2 nonsense"])
def test_a_dsn_that_cannot_be_read_is_refused_without_repeating_it(dsn):
    with pytest.raises(SettingsInvalid, match="postgresql://USER:PASSWORD@HOST:PORT/DATABASE") as caught:
        open_lease_store(Settings(leases="sql", postgres_dsn=SecretStr(dsn)))

    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_without_leases_replicas_are_refused_aloud_and_stay_1(caplog):
    store = open_lease_store(Settings(leases="none"))

    store.set_desired("intake.files", DesiredState(started=False, replicas=3))

    assert store.desired("intake.files") == DesiredState(started=False, replicas=1)
    assert "intake.files: 3 replicas asked for, but without leases every worker runs one drain" in caplog.text


def test_naming_the_leases_does_not_import_the_clients():
    clients = ("consul", "psycopg", "requests")
    code = f"import sys, pipestream.leases; print([name for name in {clients} if name in sys.modules])"

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("kind", "ttl_s", "longest_s"),
    [
        pytest.param("sql", 3.0, 8.0, id="sql: the TTL, and 5 s for what was under way"),
        pytest.param("consul", 30.0, 65.0, id="consul: twice the TTL, besides"),
        pytest.param("consul", 3.0, 25.0, id="consul: whose least TTL is 10 s"),
        pytest.param("consul", 20.2, 47.0, id="consul: which counts whole seconds"),
        pytest.param("none", 20.0, 0.0, id="none: nothing is ever taken"),
    ],
)
def test_a_store_tells_how_long_the_lease_of_a_dead_holder_may_stay_taken(kind, ttl_s, longest_s):
    store = open_lease_store(Settings(leases=kind))

    assert store.longest_expiry_s(ttl_s) == longest_s
    store.close()

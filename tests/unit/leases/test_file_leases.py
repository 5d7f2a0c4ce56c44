"""Leases in a folder; what all stores promise is in ``tests/integration/test_leases_contract.py``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pipestream.errors import LeaseStoreRefused, LeaseStoreUnavailable
from pipestream.leases import DesiredState, file
from pipestream.leases.file import FileLeaseStore
from pipestream.leases.names import WORKERS
from pipestream.leases.workers import Membership, list_workers
from pipestream.settings import Settings

TOPIC = "intake.files"
TAKE_THE_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    return FileLeaseStore(Settings(leases="file", lease_folder=tmp_path / "leases"))


@pytest.mark.parametrize("data", [b'{"half": ', b"\xff\xfe"])
def test_a_file_that_holds_no_leases_is_refused_with_its_name(store, tmp_path, data):
    store.register([TOPIC])
    (tmp_path / "leases" / file.STATE_FILE).write_bytes(data)

    with pytest.raises(LeaseStoreRefused, match=r"leases\.json is not a file of leases"):
        store.topics()


def test_a_folder_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    (tmp_path / "taken").write_text("")
    store = FileLeaseStore(Settings(leases="file", lease_folder=tmp_path / "taken"))

    with pytest.raises(LeaseStoreRefused, match="taken cannot be used"):
        store.register([TOPIC])


def test_a_process_that_holds_the_lock_is_waited_for_but_not_forever_and_its_death_frees_it(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(file, "_LOCK_TIMEOUT_S", 0.2)
    store.register([TOPIC])
    lock = tmp_path / "leases" / file.LOCK_FILE
    command = [sys.executable, "-c", TAKE_THE_LOCK, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"

        with pytest.raises(LeaseStoreUnavailable, match=r"has been locked for 0\.2 s"):
            store.set_desired(TOPIC, DesiredState(started=False))
        assert store.desired(TOPIC).started  # reading needs no lock
        os.kill(other.pid, signal.SIGKILL)

    store.set_desired(TOPIC, DesiredState(started=False))
    assert not store.desired(TOPIC).started


def test_workers_see_each_other_and_are_no_topic(store):
    first, second = Membership(store, "a@host:1", 4, 60), Membership(store, "b@host:2", 16, 60)

    first.renew()
    assert second.renew() == {"a@host:1": 4, "b@host:2": 16}
    assert store.topics() == []
    assert store.assignments() == []
    assert [found.slot for found in store.assignments(WORKERS)] == [0, 1]

    first.leave()
    assert list_workers(store) == {"b@host:2": 16}


def test_a_worker_that_was_taken_for_dead_joins_again(store):
    worker = Membership(store, "a@host:1", 4, 60)
    worker.renew()
    store.unregister([WORKERS])
    assert list_workers(store) == {}

    assert worker.renew() == {"a@host:1": 4}
    assert list_workers(store) == {"a@host:1": 4}

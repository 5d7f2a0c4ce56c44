"""A lease kept by a process that is stopped or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipestream.errors import LeaseLost, LeaseUnavailable
from pipestream.leases import LeaseKeeper, open_lease_store
from pipestream.settings import load_settings
from pipestream.topic_names import node_topic

pytestmark = pytest.mark.stack

REPOSITORY = Path(__file__).resolve().parents[2]
# So that a busy machine does not keep the child from two renewals in a row.
TTL_S = 8.0


@pytest.fixture
def store(settings):
    yield (opened := open_lease_store(settings))
    opened.close()


@pytest.fixture
def child(config_file, unique):
    """A process that holds the lease on the topic and answers each line with whether it still does."""
    environment = {**os.environ, "PIPESTREAM_CONFIG": str(config_file), "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, __file__, node_topic(unique, "parser")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        assert process.stdout.readline() == "holding\n"
        yield process
        process.kill()  # does nothing to one that has ended


def ask(child):
    child.stdin.write("?\n")
    child.stdin.flush()
    return child.stdout.readline()


def test_a_process_stopped_past_the_ttl_loses_the_lease_and_knows_it_when_it_continues(store, child, unique):
    topic = node_topic(unique, "parser")
    assert ask(child) == "held\n"
    child.send_signal(signal.SIGSTOP)

    assert store.wait_free(topic, 0, 120)
    lease = store.acquire(topic, 0, "second", 60.0)
    child.send_signal(signal.SIGCONT)

    assert ask(child).startswith(f"lost: {topic} slot 0: the lease was lost (")
    child.stdin.close()
    assert child.wait(120) == 0
    store.renew(lease)  # what the stale process released on its way out was not ours


def test_a_process_that_lives_keeps_its_lease_beyond_the_ttl(store, child, unique):
    topic = node_topic(unique, "parser")

    assert not store.wait_free(topic, 0, TTL_S + 2)

    with pytest.raises(LeaseUnavailable, match="leased by first"):
        store.acquire(topic, 0, "second", TTL_S)
    assert ask(child) == "held\n"


def test_a_process_that_ends_gives_its_lease_back(store, child, unique):
    child.stdin.close()
    assert child.wait(120) == 0

    assert store.acquire(node_topic(unique, "parser"), 0, "second", TTL_S).holder == "second"


def test_the_lease_of_a_killed_process_runs_out(store, child, unique):
    topic = node_topic(unique, "parser")
    child.kill()
    child.wait(120)

    assert store.wait_free(topic, 0, 120)
    assert store.topics() == [topic]


def hold(topic: str) -> None:
    """What the child does."""
    store = open_lease_store(load_settings())
    with LeaseKeeper(store, store.acquire(topic, 0, "first", TTL_S)) as keeper:
        print("holding", flush=True)
        for _ in sys.stdin:
            try:
                keeper.check()
            except LeaseLost as error:
                print(f"lost: {error}", flush=True)
            else:
                print("held", flush=True)
    store.close()


if __name__ == "__main__":
    hold(sys.argv[1])

"""Kill or stop a replay at each of its steps; whatever dies when, every letter goes back once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import psutil
import pytest

from pipestream import faults
from pipestream.dead_letters import Act, State
from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream_testing.settings_file import write_settings
from pipestream_testing.settling import wait_until_settled
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack

DOCUMENTS = [f"bad-{number:02}" for number in range(25)]


@pytest.fixture
def letters(make_letters):
    """Letters for three transactions of a replay."""
    made = make_letters(chunk_records=10)
    made.fail(*DOCUMENTS)
    return made


@pytest.fixture
def start_replay(letters, tmp_path):
    """Start a replay in a process of its own, as a user does, with a fault if asked for."""
    config = tmp_path / "replay.toml"
    write_settings(config, letters.settings)
    started = []

    def start(action_id, fault=None):
        environment = {**os.environ, "PIPESTREAM_CONFIG": str(config)}
        if fault:
            environment[faults.VARIABLE] = fault
        command = [sys.executable, "-m", "pipestream.cli.main", "dlq", "replay", "--json"]
        command += ["--graph", str(letters.pipeline.graph_file), "--topic", letters.dead]
        command += ["--action", f"{letters.unique}-{action_id}"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def kill_at(start_replay, fault):
    process = start_replay("r1", f"{fault[0]}=kill@{fault[1]}")
    _, err = process.communicate(timeout=400)
    assert process.returncode == -signal.SIGKILL, err


FAULTS = [
    pytest.param((faults.PLAN_WRITTEN, 1), 0, id="with its plan written"),
    pytest.param((faults.CHUNK_PRODUCED, 1), 0, id="between sending and committing the first chunk"),
    pytest.param((faults.CHUNK_PRODUCED, 2), 10, id="between sending and committing the second chunk"),
    pytest.param((faults.CHUNK_COMMITTED, 1), 10, id="with the first chunk committed"),
    pytest.param((faults.CHUNK_COMMITTED, 3), 25, id="with all committed"),
]


@pytest.mark.parametrize(("fault", "done"), FAULTS)
def test_a_killed_replay_repeated_under_its_id_continues_where_it_stopped(letters, start_replay, fault, done):
    kill_at(start_replay, fault)
    if fault[0] == faults.PLAN_WRITTEN:
        # All tests share the decisions. A plan behind the open transaction of another one is not seen yet.
        wait_until_settled(letters.settings, [DECISIONS_TOPIC])

    again = start_replay("r1")
    out, err = again.communicate(timeout=400)

    assert again.returncode == 0, err
    report = json.loads(out)
    assert report["decided"] == {"replayed": 25}
    assert report["decided_now"] == 25 - done
    assert report["status"] == ("done before" if done == 25 else "done")
    assert letters.replayed() == DOCUMENTS
    assert letters.open_ids() == []


def test_a_killed_replay_may_be_followed_by_another_one(letters, start_replay):
    kill_at(start_replay, (faults.CHUNK_PRODUCED, 2))

    report = letters.act(Act.REPLAY, "r2")

    assert report.decided == {State.REPLAYED: 15}
    assert letters.replayed() == DOCUMENTS


def is_stopped(process):
    assert process.poll() is None, process.communicate()
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(f"{faults.CHUNK_PRODUCED}=stop@2", id="in a transaction"),
        pytest.param(f"{faults.CHUNK_COMMITTED}=stop@1", id="between two transactions"),
    ],
)
def test_a_replay_that_was_stopped_and_overtaken_sends_nothing_more_and_says_why(letters, start_replay, fault):
    stopped = start_replay("r1", fault)
    wait_until(lambda: is_stopped(stopped), "the replay did not get to its second chunk", timeout_s=240)

    report = letters.act(Act.REPLAY, "r2")
    stopped.send_signal(signal.SIGCONT)
    _, err = stopped.communicate(timeout=400)

    assert report.decided == {State.REPLAYED: 15}
    assert stopped.returncode == 1
    assert "a newer run took over" in err
    assert letters.replayed() == DOCUMENTS

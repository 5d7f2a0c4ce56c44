from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from pipestream.errors import StackError
from pipestream.local.cache import cache_folder, provide
from pipestream.local.process import ProcessRecord, find_process, kill_child, kill_process, start_process, stop_process
from pipestream.local.tools import read_version, run_tool
from pipestream_testing.waiting import wait_until

# Prints its child's pid once both run; the child is in a session of its own, as PostgreSQL's are.
_PARENT = """
import signal, subprocess, sys, time
if {stubborn}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session={apart})
print(child.pid, flush=True)
time.sleep(600)
"""

_STARTER = """
import os, sys, time
from pathlib import Path
from pipestream.local.process import start_process
record = start_process([sys.executable, "-c", "import time; time.sleep(600)"], os.environ, Path(sys.argv[1]))
print(record.pid, record.created, flush=True)
time.sleep(600)
"""


def _start_parent(log, *, stubborn=False, apart=False):
    program = _PARENT.format(stubborn=stubborn, apart=apart)
    record = start_process([sys.executable, "-c", program], os.environ, log)
    wait_until(lambda: log.exists() and log.read_text().endswith("\n"), "the process did not start")
    return record, psutil.Process(int(log.read_text()))


def _ended(process):
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_server_does_not_inherit_the_open_files_of_the_shell(tmp_path):
    """As in ``flock FILE pipestream up``: the lock is free when the command has ended, although servers run."""
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        record, _ = _start_parent(tmp_path / "log")

    try:
        with (tmp_path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert find_process(record) is not None
    finally:
        kill_process(record)


def test_a_child_is_killed_with_what_it_has_started():
    program = _PARENT.format(stubborn=True, apart=False)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        below = psutil.Process(int(process.stdout.readline()))

        kill_child(process)

        assert process.wait() == -signal.SIGKILL
    wait_until(lambda: _ended(below), "the child's child still runs")


@pytest.mark.parametrize("apart", [False, True], ids=["child in the session", "child in its own session"])
def test_a_stopped_server_leaves_no_child_behind(tmp_path, apart):
    record, child = _start_parent(tmp_path / "log", apart=apart)

    stop_process(record, stop_signal=signal.SIGTERM, timeout_s=0.2)

    assert find_process(record) is None
    assert _ended(child)


def test_a_server_that_ignores_the_signal_is_killed_and_said_so(tmp_path):
    record, child = _start_parent(tmp_path / "log", stubborn=True)

    went = stop_process(record, stop_signal=signal.SIGTERM, timeout_s=0.2)

    assert went is False
    assert find_process(record) is None
    assert _ended(child)


@pytest.mark.timeout(60)
def test_a_server_whose_starter_takes_no_note_of_its_end_is_not_waited_for(tmp_path):
    """As in a test run whose processes share servers: who stops a server need not be the one that started it."""
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, tmp_path / "log"], stdout=subprocess.PIPE, text=True)
    pid, created = starter.stdout.readline().split()
    record = ProcessRecord(int(pid), float(created))

    went = stop_process(record, stop_signal=signal.SIGTERM, timeout_s=3600)

    assert went is True
    assert find_process(record) is None
    assert psutil.Process(record.pid).status() == psutil.STATUS_ZOMBIE
    starter.kill()
    starter.communicate()


def test_a_kill_ends_server_and_children(tmp_path):
    record, child = _start_parent(tmp_path / "log")

    kill_process(record)

    assert find_process(record) is None
    assert _ended(child)


def test_what_a_crashed_server_left_in_its_session_is_stopped_too(tmp_path):
    record, child = _start_parent(tmp_path / "log")
    os.kill(record.pid, signal.SIGKILL)
    os.waitpid(record.pid, 0)

    stop_process(record, stop_signal=signal.SIGTERM, timeout_s=0.2)

    assert _ended(child)


def test_a_process_that_got_a_recycled_pid_is_left_alone(tmp_path):
    record, child = _start_parent(tmp_path / "log")
    earlier = replace(record, created=record.created - 3600)

    stop_process(earlier, stop_signal=signal.SIGTERM, timeout_s=0.2)
    kill_process(earlier)

    assert find_process(record) is not None
    assert not _ended(child)
    kill_process(record)


def test_a_started_process_has_a_session_of_its_own(tmp_path):
    record, _child = _start_parent(tmp_path / "log")

    assert os.getsid(record.pid) == record.pid
    kill_process(record)


def test_a_failing_tool_is_reported_with_its_last_lines():
    with pytest.raises(StackError, match=r"(?s)making tea failed: .* status 3\n  \| no kettle"):
        run_tool([sys.executable, "-c", "print('no kettle'); raise SystemExit(3)"], "making tea")


def test_a_missing_tool_is_reported():
    with pytest.raises(StackError, match="making tea: /no/such/kettle could not be started"):
        run_tool(["/no/such/kettle"], "making tea")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("Consul v1.22.7\nBuild Date", (1, 22, 7)),
        ("postgres (PostgreSQL) 16.14", (16, 14)),
        ("Version  : git", ()),
    ],
)
def test_reads_the_version_a_tool_prints(text, version):
    assert read_version(text) == version


def test_a_cached_folder_is_made_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def make(folder):
        calls.append(folder)
        (folder / "file").write_text("made")

    first, second = provide("thing-1", make), provide("thing-1", make)

    assert first == second == cache_folder() / "thing-1"
    assert (first / "file").read_text() == "made"
    assert len(calls) == 1


def test_a_folder_whose_making_failed_is_not_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(folder):
        (folder / "half").write_text("")
        raise StackError("no network")

    with pytest.raises(StackError, match="no network"):
        provide("thing-1", fail)

    assert [entry.name for entry in cache_folder().iterdir()] == ["thing-1.lock"]

"""A stack of its own, really started, broken, repaired and stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import psycopg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipestream.errors import StackError
from pipestream.local import Stack, load_spec

pytestmark = pytest.mark.stack

# Spark, which takes half a minute, has tests of its own.
BOTH = ("kafka", "postgres")


@pytest.fixture
def spec(tmp_path):
    return load_spec(profile="embedded", folder=tmp_path / "stack", free_ports=True, durable=False)


@pytest.fixture
def own_stack(spec):
    stack = Stack(spec)
    yield stack
    stack.down()


@pytest.fixture(scope="module")
def up_stack(tmp_path_factory):
    """A running stack for the tests that only look."""
    folder = tmp_path_factory.mktemp("looked-at") / "stack"
    with Stack(load_spec(folder=folder, free_ports=True, durable=False)).running(names=BOTH) as stack:
        yield stack


def _processes_of(stack):
    """Every live process that belongs to the stack: each has its folder in its command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(stack.spec.folder) in word for word in words):
            found.append(process)
    return found


def _states(stack):
    return {server.name: server.state for server in stack.status() if server.name in BOTH}


def _wait_for_states(stack, **expected):
    """Wait until servers are as expected; one that has much to do may be taken for one that does not answer."""
    deadline = time.monotonic() + 60
    while (found := _states(stack)) != expected and "unresponsive" in found.values():
        assert time.monotonic() < deadline, found
    assert found == expected


def _write_record(stack, topic, value):
    client = AdminClient({"bootstrap.servers": stack.settings().kafka_bootstrap})
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=120)
    producer = Producer({"bootstrap.servers": stack.settings().kafka_bootstrap})
    producer.produce(topic, value)
    assert producer.flush(120) == 0


def _read_record(stack, topic):
    consumer = Consumer({"bootstrap.servers": stack.settings().kafka_bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    deadline = time.monotonic() + 120
    while (message := consumer.poll(1)) is None or message.error():
        assert time.monotonic() < deadline, message and message.error()
    consumer.close()
    return message.value()


def _execute(stack, statement):
    with psycopg.connect(stack.settings().postgres_dsn.get_secret_value()) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


def test_servers_that_are_named_start_a_crashed_one_is_repaired_and_all_data_survives_a_stop(own_stack):
    _wait_for_states(own_stack, kafka="stopped", postgres="stopped")
    assert own_stack.up(names=["postgres"]) == ["postgres"]
    _wait_for_states(own_stack, kafka="stopped", postgres="running")
    assert own_stack.up(names=BOTH) == ["kafka"]
    _wait_for_states(own_stack, kafka="running", postgres="running")
    _write_record(own_stack, "kept", b"hello")
    _execute(own_stack, "CREATE TABLE kept AS SELECT 42 AS answer")

    own_stack.server("kafka").kill()
    _wait_for_states(own_stack, kafka="crashed", postgres="running")
    assert own_stack.up(names=BOTH) == ["kafka"]
    _wait_for_states(own_stack, kafka="running", postgres="running")
    assert _read_record(own_stack, "kept") == b"hello"

    assert sorted(own_stack.down()) == ["kafka", "postgres"]
    assert _processes_of(own_stack) == []

    own_stack.up(names=BOTH)
    assert _read_record(own_stack, "kept") == b"hello"
    assert _execute(own_stack, "SELECT answer FROM kept") == [(42,)]


def test_a_second_up_says_so_and_starts_nothing(up_stack):
    pids = {server.name: server.pid for server in up_stack.status()}
    lines = []

    assert up_stack.up(lines.append, names=BOTH) == []

    assert lines == ["already up"]
    assert {server.name: server.pid for server in up_stack.status()} == pids


def test_a_server_that_runs_but_does_not_answer_is_shown_as_such(up_stack):
    pid = up_stack.server("kafka").pid

    os.kill(pid, signal.SIGSTOP)
    try:
        _wait_for_states(up_stack, kafka="unresponsive", postgres="running")
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_taken_port_is_refused_before_anything_starts(spec, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        stack = Stack(load_spec(folder=tmp_path / "stack", free_ports=True, postgres_port=port))

        with pytest.raises(StackError, match=f"port {port} is taken.*PIPESTREAM_STACK_POSTGRES_PORT"):
            stack.up()

    assert _processes_of(stack) == []


def test_a_server_that_cannot_start_fails_at_once_with_its_log_and_takes_the_others_down(own_stack):
    own_stack.up(names=["postgres"])
    own_stack.down()
    version = own_stack.spec.folder / "data" / "postgres" / "global" / "pg_control"
    version.write_bytes(b"")

    with pytest.raises(StackError, match=r"(?s)postgres ended while it was starting.*the whole log: .*postgres\.log"):
        own_stack.up(names=BOTH)

    assert _processes_of(own_stack) == []
    _wait_for_states(own_stack, kafka="stopped", postgres="stopped")


def test_the_last_one_to_leave_a_shared_stack_stops_it_and_removes_its_data(own_stack):
    data = own_stack.spec.folder / "data" / "postgres"
    with own_stack.shared(names=["postgres"]):
        with Stack(own_stack.spec).shared(names=["postgres"]):
            assert _processes_of(own_stack) != []
        assert _processes_of(own_stack) != []
        assert data.exists()

    assert _processes_of(own_stack) == []
    assert not data.exists()


def test_leaving_the_block_by_an_error_stops_the_servers(own_stack):
    def fail():
        with own_stack.running(names=["postgres"]):
            _wait_for_states(own_stack, kafka="stopped", postgres="running")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert _processes_of(own_stack) == []


@pytest.mark.parametrize(
    ("number", "names"), [(signal.SIGINT, BOTH), (signal.SIGTERM, ("postgres",))], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_program_that_is_told_to_stop_leaves_no_server_behind(own_stack, number, names):
    program = (
        "import signal, sys, time; from pathlib import Path; from pipestream.local import Stack, load_spec\n"
        # A shell that runs the tests in the background has them ignore Ctrl-C, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "spec = load_spec(profile='embedded', folder=Path(sys.argv[1]), free_ports=True, durable=False)\n"
        "with Stack(spec).running(names=sys.argv[2:]):\n    print('ready', flush=True); time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", program, str(own_stack.spec.folder), *names]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        states = {name: "running" if name in names else "stopped" for name in BOTH}
        _wait_for_states(own_stack, **states)

        process.send_signal(number)
        try:
            process.wait(240)
        finally:
            process.kill()

    assert process.returncode != 0
    assert _processes_of(own_stack) == []


def test_servers_outlive_the_command_that_started_them(own_stack):
    program = (
        "import sys; from pathlib import Path; from pipestream.local import Stack, load_spec\n"
        "spec = load_spec(profile='embedded', folder=Path(sys.argv[1]), free_ports=True, durable=False)\n"
        "Stack(spec).up(names=['kafka'])\n"
    )

    subprocess.run([sys.executable, "-c", program, str(own_stack.spec.folder)], check=True, timeout=400)

    _wait_for_states(own_stack, kafka="running", postgres="stopped")
    assert own_stack.down() == ["kafka"]
    assert _processes_of(own_stack) == []


def test_the_packaged_postgres_runs_below_a_folder_that_is_closed_to_others(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    stack = Stack(load_spec(folder=closed / "stack", free_ports=True, postgres="packaged", durable=False))

    with stack.running(names=["postgres"]):
        [(version,)] = _execute(stack, "SHOW server_version_num")
        [(directory,)] = _execute(stack, "SHOW data_directory")

    assert int(version) >= 160000
    assert directory == str(closed / "stack" / "data" / "postgres")


def test_files_with_secrets_are_private_and_the_state_is_ignored_by_git(up_stack):
    folder = up_stack.spec.folder

    modes = {name: (folder / name).stat().st_mode & 0o077 for name in ("stack.toml", "secrets.json", "stack.json")}

    assert modes == dict.fromkeys(modes, 0)
    assert (folder / ".gitignore").read_text() == "*\n"


def test_a_wrong_password_is_refused_by_postgres(up_stack):
    address = up_stack.settings().postgres_dsn.get_secret_value().partition("@")[2]

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://pipestream:wrong@{address}", connect_timeout=60)


def test_fetching_starts_nothing(own_stack):
    assert own_stack.fetch() == ["kafka", "postgres", "spark-connect"]
    _wait_for_states(own_stack, kafka="stopped", postgres="stopped")

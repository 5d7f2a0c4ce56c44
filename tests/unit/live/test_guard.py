"""Guards and their servers, as real processes: who owns a server, and what happens to one that nobody owns."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pipestream.live.owner import OwnedServer, is_guarded, own_server, stop_abandoned, stop_all
from pipestream.live.spec import Place, ServerSpec
from pipestream.settings import Settings
from pipestream.stop_times import server_stop_s
from pipestream_testing.processes import runs
from pipestream_testing.waiting import wait_until


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path / "live")
    yield found
    stop_all(found, wait_s=60)


@pytest.fixture
def own(place: Place) -> Iterator[Callable[[ServerSpec, str], OwnedServer]]:
    """Owns servers, until the test ends."""
    found: list[OwnedServer] = []

    def make(spec: ServerSpec, owner: str) -> OwnedServer:
        found.append(own_server(spec, place, owner))
        return found[-1]

    yield make
    for server in found:
        server.close()


@pytest.fixture
def spec(port: int, tmp_path: Path) -> ServerSpec:
    command = (sys.executable, "-m", "pipestream_testing.tiny_server", str(port), str(tmp_path))
    return ServerSpec("tiny", command, adopt_within_s=60.0, stop_timeout_s=20.0, backoff_s=0.05)


def running(server: OwnedServer, starts: int = 1) -> int:
    """Wait until a server runs, and return its pid."""

    def find() -> int:
        look = server.look()
        return look.pid if look.starts >= starts else 0

    return wait_until(find, "the server does not run", timeout_s=60)


def notes(tmp_path: Path) -> list[str]:
    file = tmp_path / "notes"
    return file.read_text().splitlines() if file.exists() else []


def wait_for_note(tmp_path: Path, note: str) -> None:
    wait_until(lambda: note in notes(tmp_path), f"no note {note!r}", timeout_s=60)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not runs(pid), f"process {pid} still runs", timeout_s=60)


def test_a_server_that_is_killed_is_started_again(own, spec, place):
    server = own(spec, "me")
    first = running(server)

    os.kill(first, signal.SIGKILL)

    second = running(server, starts=2)
    assert second != first
    assert server.look().last_end == "SIGKILL"


def test_the_next_owner_takes_over_the_same_process(own, spec, place, tmp_path):
    first = own(spec, "run-1")
    pid = running(first)
    wait_for_note(tmp_path, f"begins {pid}")
    first.leave()

    second = own(spec, "run-2")

    look = second.look()
    assert (look.pid, look.starts, look.owners) == (pid, 1, ("run-2",))
    assert notes(tmp_path) == [f"begins {pid}"]


def test_a_server_that_is_stopped_ends_by_itself_and_leaves_no_process(own, spec, place, tmp_path):
    server = own(spec, "me")
    pid = running(server)
    wait_for_note(tmp_path, f"begins {pid}")
    guard = psutil.Process(pid).ppid()

    assert server.stop(wait_s=60)

    assert notes(tmp_path) == [f"begins {pid}", f"ends {pid}"]
    wait_until_gone(pid)
    wait_until_gone(guard)
    assert place.sockets() == []


def test_one_of_two_owners_that_stops_leaves_the_server_to_the_other(own, spec, place):
    one, other = own(spec, "one"), own(spec, "other")
    pid = running(one)

    assert one.stop(wait_s=60)

    assert (other.look().pid, other.look().owners) == (pid, ("other",))


def test_an_owner_that_dies_without_a_word_takes_the_server_with_it(own, spec, place, tmp_path):
    spec = replace(spec, lost_within_s=0.5)
    code = f"""
import time
from pathlib import Path
from pipestream.live.owner import own_server
from pipestream.live.spec import Place, ServerSpec
server = own_server(ServerSpec.from_json({spec.to_json()!r}), Place(Path({str(place.folder)!r})), "doomed")
while not server.look().pid:
    time.sleep(0.05)
print(server.look().pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        wait_for_note(tmp_path, f"begins {pid}")
        owner.kill()

    wait_for_note(tmp_path, f"ends {pid}")
    wait_until_gone(pid)


def test_a_guard_that_is_killed_takes_the_server_with_it(own, spec, place, tmp_path):
    pid = running(own(spec, "me"))
    wait_for_note(tmp_path, f"begins {pid}")

    psutil.Process(pid).parent().kill()

    wait_for_note(tmp_path, f"ends {pid}")
    assert own(spec, "after").look().starts <= 1  # of another guard


def test_an_owner_that_comes_while_the_server_is_stopped_gets_a_new_one(own, spec, place, tmp_path):
    first = own(spec, "first")
    old = running(first)
    wait_for_note(tmp_path, f"begins {old}")
    first.stop(wait_s=0)

    new = running(own(spec, "second"))

    assert new != old
    wait_for_note(tmp_path, f"begins {new}")
    assert notes(tmp_path) == [f"begins {old}", f"ends {old}", f"begins {new}"]


def test_the_pause_before_a_start_grows_while_the_server_keeps_dying(own, spec, place, tmp_path):
    (tmp_path / "broken").touch()
    server = own(spec, "me")

    tried = wait_until(lambda: server.look().starts >= 3 and server.look(), "no third start", timeout_s=60)

    assert tried.last_end == "exit code 3"
    said = place.log(spec.key).read_text()
    assert re.findall(r"starting again in (\S+) s", said)[:2] == ["0.05", "0.1"]
    assert "tiny server: broken" in said
    (tmp_path / "broken").unlink()
    running(server, starts=server.look().starts)


def test_a_command_that_does_not_exist_is_named_in_the_log(own, place):
    spec = ServerSpec("nothing", ("/no/such/program",), backoff_s=0.05)
    server = own(spec, "me")

    wait_until(lambda: server.look().starts >= 1 and server.look().last_end, "no end", timeout_s=60)

    assert "/no/such/program cannot be started" in place.log(spec.key).read_text()


def test_an_abandoned_server_of_the_same_name_is_stopped_and_an_owned_one_is_not(own, spec, place, port, tmp_path):
    def other(more: str) -> ServerSpec:
        return ServerSpec("tiny", ("sleep", more), adopt_within_s=60.0)

    abandoned, owned = own(other("1000"), "old"), own(other("2000"), "other")
    abandoned.leave()

    assert stop_abandoned(spec, place, wait_s=60) == [abandoned.spec.key]

    assert place.sockets("tiny") == [place.socket(owned.spec.key)]
    assert is_guarded(owned.spec, place)
    assert not is_guarded(abandoned.spec, place)
    assert owned.look().owners == ("other",)


def test_a_folder_with_a_long_name_works_too(spec, tmp_path):
    place = Place(tmp_path / ("long" * 30) / "live")
    server = own_server(spec, place, "me")

    assert running(server)
    assert server.stop(wait_s=60)
    server.close()


def test_a_log_is_begun_again_while_the_server_runs_and_the_one_before_is_kept(place, own):
    say = "while :; do echo a line that the server says again and again; sleep 0.01; done"
    server = own(ServerSpec("chatty", ("sh", "-c", say), log_bytes=5_000), "one")
    old = place.old_log(server.spec.key)

    wait_until(old.is_file)
    first = old.stat().st_mtime_ns
    wait_until(lambda: old.stat().st_mtime_ns > first)

    assert old.stat().st_size > 5_000
    wait_until(lambda: 0 < server.log_file.stat().st_size < 5_000)
    assert server.look().starts == 1


@pytest.mark.parametrize("server", ["engine", "repository", "sidecar", "stream", "another"])
def test_a_server_may_take_as_long_to_stop_as_its_settings_allow(server):
    settings = Settings(grpc_stop_s=100.0, sidecar_stop_s=500.0)

    assert server_stop_s(server, settings) > (200.0 if server in ("engine", "repository") else 500.0)

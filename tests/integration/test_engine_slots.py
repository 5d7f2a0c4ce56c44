from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import psutil
import pytest

from pipestream.accepted import Submission, accepted_topic, slot_of
from pipestream.engine_server.place import WorkerPlace, holder_of_child
from pipestream.engine_server.slots import Slots
from pipestream.errors import LeaseLost, NotOwner
from pipestream.leases.names import lease_name
from pipestream.leases.open import open_lease_store
from pipestream.settings import CONFIG_VARIABLE
from pipestream_testing.settings_file import write_settings
from pipestream_testing.waiting import wait_until

pytestmark = pytest.mark.stack


@pytest.fixture(params=["sql", "consul", "file"])
def leased_settings(request, settings, unique, tmp_path):
    if request.param == "consul":
        request.getfixturevalue("consul")
    changes = {"engine_name": unique, "leases": request.param, "lease_folder": tmp_path / "leases"}
    return settings.model_copy(update={**changes, "lease_ttl_s": 10.0})


@pytest.fixture
def start_slots():
    started = []

    def start(settings, address, place=None):
        slots = Slots(settings, address, place)
        slots.start()
        started.append(slots)
        return slots

    yield start
    for each in started:
        each.close(10)


def key_of(slot, slots):
    return next(key for key in map(str, range(10_000)) if slot_of(key, slots) == slot)


def test_processes_share_the_slots_and_name_the_owner_of_the_others(leased_settings, start_slots):
    settings = leased_settings.model_copy(update={"engine_slots": 3})
    first = start_slots(settings, "first:1")
    assert set(first.held) == {0, 1, 2}
    second = start_slots(settings, "second:2")
    wait_until(lambda: len(second.held) == 1 and len(first.held) == 2, "the slots are not shared")
    (moved,) = second.held
    wait_until(lambda: owner_at(first, moved) == "second:2", "the first does not know where the slot is")
    assert second.for_key(key_of(moved, 3)) is second.held[moved]
    other = next(iter(first.held))
    wait_until(lambda: owner_at(second, other) == "first:1", "the second does not know where the slot is")
    first.close(30)
    wait_until(lambda: len(second.held) == 3, "the slots of a process that left are not taken")


def owner_at(slots, number):
    with pytest.raises(NotOwner) as caught:
        slots.for_key(key_of(number, slots.count))
    return caught.value.owner


def test_without_leases_the_workers_of_one_machine_have_slots_by_number(settings, unique, start_slots):
    alone = settings.model_copy(update={"engine_name": unique, "leases": "none", "engine_slots": 3})
    place = WorkerPlace(0, 2, ("host:1", "host:2"))
    first = start_slots(alone, "host:1", place)
    second = start_slots(alone, "host:2", replace(place, index=1))
    assert (set(first.held), set(second.held)) == ({0, 2}, {1})
    assert owner_at(first, 1) == "host:2"
    assert owner_at(second, 2) == "host:1"
    assert first.any() in first.held.values()


def test_a_slot_that_was_fenced_though_its_lease_is_ours_starts_again(settings, unique, start_slots):
    """The broker fences a producer whose transaction took too long, and nobody has taken the slot over."""
    alone = settings.model_copy(update={"engine_name": unique, "lease_ttl_s": 5.0})
    slots = start_slots(alone, "host:1")
    fencing = Slots(alone.model_copy(update={"leases": "none"}), "other:1")
    fencing.start()
    fencing.close(30)
    fenced = slots.held[0]
    with pytest.raises(Exception, match="call again"):
        fenced.submit(Submission([], b"ok", "a")).result(120)
    wait_until(lambda: slots.held[0] is not fenced, "the slot was not started again")
    assert slots.for_key("a").submit(Submission([], b"ok", "a")).result(120) == b"ok"


def test_a_fenced_slot_starts_again_also_while_the_lease_store_is_away(settings, unique, start_slots, tmp_path):
    folder = tmp_path / "leases"
    changes = {"engine_name": unique, "leases": "file", "lease_folder": folder, "lease_ttl_s": 600.0}
    slots = start_slots(settings.model_copy(update=changes), "host:1")
    folder.rename(tmp_path / "away")
    folder.write_text("not a folder")  # else the store makes a new one
    fencing = Slots(settings.model_copy(update={"engine_name": unique, "leases": "none"}), "other:1")
    fencing.start()
    fencing.close(30)
    fenced = slots.held[0]
    with pytest.raises(Exception, match="call again"):
        fenced.submit(Submission([], b"ok", "a")).result(120)
    wait_until(lambda: slots.held[0] is not fenced, "the slot was not started again")
    folder.unlink()
    (tmp_path / "away").rename(folder)


@pytest.mark.parametrize("by_parent", [True, False])
def test_a_restarted_engine_takes_the_slots_of_its_dead_predecessor_at_once(
    settings, unique, start_slots, tmp_path, by_parent
):
    """Its lease is still there for its whole TTL, but its parent, or its successor at the same address, knows."""
    settings = settings.model_copy(update={"engine_name": unique, "lease_ttl_s": 600.0})
    file = tmp_path / "holder.toml"
    write_settings(file, settings)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={**os.environ, CONFIG_VARIABLE: str(file)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as dead:
        assert dead.stdout.readline() == b"1\n"
        dead.kill()
    stranger = start_slots(settings, "host:3")
    assert not stranger.held
    dead_holders = (holder_of_child(dead.pid, "host:1"),) if by_parent else ()
    address = "host:2" if by_parent else "host:1"
    place = WorkerPlace(0, 1, (address,), dead_holders)
    assert set(start_slots(settings, address, place).held) == {0}


def test_a_slot_whose_lease_came_late_asks_it_before_it_starts_again(settings, unique, start_slots, tmp_path):
    """It was taken from a dead holder, so it had no lease at first. Without asking, it would fence the next holder."""
    changes = {"engine_name": unique, "leases": "file", "lease_folder": tmp_path / "leases", "lease_ttl_s": 3.0}
    settings = settings.model_copy(update=changes)
    name, dead = lease_name(accepted_topic(unique), "slots"), holder_of_child(0, "host:9")
    with closing(open_lease_store(settings)) as store:
        store.acquire(name, 0, dead, 3.0)
        slots = start_slots(settings, "host:1", WorkerPlace(0, 1, ("host:1",), (dead,)))
        slot = slots.held[0]
        wait_until(lambda: "host:1" in store.assignments(name)[0].holder, "the slot was not leased")
    slots.close(10)  # nobody renews the lease any more
    wait_until(lambda: is_lost(slot), "the slot does not ask its lease")


def is_lost(slot):
    try:
        slot._check_ours()
    except LeaseLost:
        return True
    return False


HOLDER = (
    "import sys\n"
    "from pipestream.settings import load_settings\n"
    "from pipestream.engine_server.slots import Slots\n"
    "slots = Slots(load_settings(), 'host:1')\n"
    "slots.start()\n"
    "print(len(slots.held), flush=True)\n"
    "sys.stdin.read()\n"
)
WORKER = (
    "import signal, sys, threading\n"
    "from pipestream.engine_server.place import WorkerPlace\n"
    "place = WorkerPlace.parse(sys.argv[1])\n"
    "done = threading.Event()\n"
    "signal.signal(signal.SIGTERM, lambda *_: done.set())\n"
    "threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()\n"
    "import os\n"
    "print(place.index, os.getpid(), len(place.dead_holders), place.address, flush=True)\n"
    "done.wait()\n"
    # In one write: the other worker may print at the same moment.
    "print(f'stopped {place.index}\\n', end='', flush=True)\n"
)
PARENT = (
    "import sys\n"
    "from pipestream.engine_server.workers import run_workers\n"
    "command = lambda place: [sys.executable, '-c', sys.argv[1], place.to_text()]\n"
    "sys.exit(run_workers(command, 2, listen_host='127.0.0.1', advertised_host='127.0.0.1', stop_s=20))\n"
)


@pytest.fixture
def parent():
    with subprocess.Popen([sys.executable, "-c", PARENT, WORKER], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_worker_that_dies_is_restarted_and_a_stop_is_graceful(parent):
    first = dict(read_worker(parent) for _ in range(2))
    assert set(first) == {"0", "1"}
    os.kill(first["0"]["pid"], signal.SIGKILL)
    index, again = read_worker(parent)
    assert (index, again["dead"], again["address"]) == ("0", 1, first["0"]["address"])
    assert again["pid"] != first["0"]["pid"]
    parent.send_signal(signal.SIGTERM)
    assert sorted(parent.stdout.read().split("\n")) == ["", "stopped 0", "stopped 1"]
    assert parent.wait(60) == 0


def test_the_workers_of_a_parent_that_was_killed_stop(parent):
    workers = [psutil.Process(worker["pid"]) for _, worker in (read_worker(parent) for _ in range(2))]
    parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


def test_a_worker_that_fails_for_good_stops_the_engine_instead_of_being_restarted():
    done = subprocess.run([sys.executable, "-c", PARENT, "import sys; sys.exit(2)"], timeout=120)
    assert done.returncode == 2


def read_worker(parent):
    index, pid, dead, address = parent.stdout.readline().split()
    return index, {"pid": int(pid), "dead": int(dead), "address": address}

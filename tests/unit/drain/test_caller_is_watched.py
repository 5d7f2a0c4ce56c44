from __future__ import annotations

import os
import subprocess
import sys
import threading

from pipestream.drain.caller import POLL_S, name_caller, watch_caller

WAITING_S = 60.0


def test_a_caller_that_is_killed_is_noticed():
    gone = threading.Event()
    told = subprocess.Popen(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"], stdout=subprocess.PIPE
    )
    with told as caller:
        assert caller.stdout.readline() == b"up\n"
        host = name_caller().rpartition(":")[0]
        watch_caller(f"{host}:{caller.pid}", gone.set)
        was_gone_before = gone.is_set()
        caller.kill()
        caller.wait()

        assert not was_gone_before
        assert gone.wait(WAITING_S)


def test_a_caller_that_lives_is_left_alone():
    gone = threading.Event()

    thread = watch_caller(name_caller(), gone.set)

    assert thread is not None
    thread.join(timeout=2 * POLL_S)
    assert thread.is_alive()
    assert not gone.is_set()


def test_a_caller_on_another_machine_is_not_watched():
    assert watch_caller(f"elsewhere.example:{os.getpid()}", lambda: None) is None

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from pipestream.engine_server.forward import Forwarder
from pipestream.engine_server.place import WorkerPlace, address_of, holder_of, holder_of_child, is_dead_predecessor
from pipestream.errors import NotOwner
from pipestream.gen.ai.pipestream.engine.v1.engine_service_pb2 import IntakeHandoffRequest, IntakeHandoffResponse
from pipestream.rpc.gate import FORWARDED
from pipestream.settings import load_settings


def dead_pid():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_place_is_read_as_it_was_written():
    place = WorkerPlace(1, 2, ("host:1", "host:2"), ("engine@host:7 host:2",))
    assert WorkerPlace.parse(place.to_text()) == place
    assert place.address == "host:2"
    assert WorkerPlace().address == ""


def test_the_name_of_a_holder_says_where_it_is():
    assert address_of(holder_of("host:1")) == "host:1"
    assert address_of(holder_of("")) == ""
    assert holder_of_child(os.getpid(), "host:1") == holder_of("host:1")


def test_a_predecessor_is_dead_if_its_pid_is_gone_and_its_address_is_ours():
    dead = dead_pid()
    assert is_dead_predecessor(holder_of_child(dead, "host:1"), "host:1")
    assert not is_dead_predecessor(holder_of_child(dead, "host:2"), "host:1"), "another engine of this machine"
    assert not is_dead_predecessor(holder_of_child(os.getppid(), "host:1"), "host:1"), "it is still stopping"
    assert not is_dead_predecessor(f"engine@elsewhere:{dead} host:1", "host:1"), "a pid of another machine"
    assert not is_dead_predecessor(holder_of("host:1"), "host:1"), "this process itself"
    assert not is_dead_predecessor("", "host:1")


@pytest.mark.parametrize(("owner", "metadata"), [("", ()), ("host:1", ((FORWARDED, "1"),))])
def test_a_call_is_handed_on_once_at_most_and_only_to_a_known_owner(owner, metadata):
    async def call():
        forwarder = Forwarder(load_settings())
        await forwarder.call(
            NotOwner(3, owner), "/x/Y", IntakeHandoffRequest(), IntakeHandoffResponse, metadata, timeout_s=1
        )

    with pytest.raises(NotOwner, match="slot 3"):
        asyncio.run(call())

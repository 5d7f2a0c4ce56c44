"""Consul and S3 of a full stack that this test alone uses, so that it may kill them."""

from __future__ import annotations

import json
import urllib.request

import pytest

from pipestream.local.consul import Consul
from pipestream.local.ports import resolve_ports
from pipestream.local.process import kill_process
from pipestream.local.s3 import BUCKET, S3
from pipestream.local.server import Site
from pipestream.local.spec import PORT_NAMES, load_spec
from pipestream.local.starter import Starter, stop_servers
from pipestream.local.state import StackState, load_secrets, read_state, write_state

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("consul")]


class Pair:
    """Consul and S3, started and killed at will."""

    def __init__(self, folder):
        spec = load_spec(profile="full", folder=folder, free_ports=True)
        ports = resolve_ports(spec.ports, PORT_NAMES)
        self.site = Site(spec, ports, load_secrets(folder / "secrets.json"))
        self.consul, self.s3 = Consul(self.site), S3(self.site)
        self.state_file = folder / "stack.json"
        write_state(self.state_file, StackState("full", False, ports))

    def start(self):
        Starter(self.state_file, print).start([self.consul, self.s3])

    def kill(self):
        for record in read_state(self.state_file).processes.values():
            kill_process(record)

    def stop(self):
        stop_servers([self.consul, self.s3], self.state_file, print)


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _put_key(address, value):
    put = urllib.request.Request(f"http://{address}/v1/kv/kept", data=value, method="PUT")
    with urllib.request.urlopen(put, timeout=60) as answer:
        return json.load(answer)


def _get_key(address):
    with urllib.request.urlopen(f"http://{address}/v1/kv/kept?raw", timeout=60) as answer:
        return answer.read()


def test_keys_and_objects_survive_a_kill(pair):
    assert _put_key(pair.consul.address, b"key") is True
    client = pair.s3.client()
    client.put_object(Bucket=BUCKET, Key="a/b", Body=b"object")

    pair.kill()
    pair.start()

    assert _get_key(pair.consul.address) == b"key"
    assert client.get_object(Bucket=BUCKET, Key="a/b")["Body"].read() == b"object"
    client.close()

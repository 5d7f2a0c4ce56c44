from __future__ import annotations

import os
import socket
from dataclasses import replace

import pytest

from pipestream.errors import StackError
from pipestream.local.ports import is_free, refuse_taken_ports, resolve_ports
from pipestream.local.spec import FREE_PORTS, PORT_NAMES, Ports


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_every_zero_becomes_a_port_of_its_own():
    ports = resolve_ports(FREE_PORTS, PORT_NAMES)

    chosen = [getattr(ports, name) for name in PORT_NAMES]
    assert len(set(chosen)) == len(PORT_NAMES)
    assert all(is_free(port) for port in chosen)


def test_no_port_is_chosen_that_the_system_may_give_to_an_outgoing_connection(tmp_path, monkeypatch):
    (tmp_path / "range").write_text("21000\t60999\n")
    monkeypatch.setattr("pipestream.local.ports.OUTGOING_PORTS", tmp_path / "range")

    ports = resolve_ports(FREE_PORTS, PORT_NAMES)

    assert all(10_000 <= getattr(ports, name) < 21_000 for name in PORT_NAMES)


def test_a_given_port_stays():
    assert resolve_ports(replace(FREE_PORTS, kafka=29092), PORT_NAMES).kafka == 29092


def test_a_remembered_port_is_taken_again_while_it_is_free():
    first = resolve_ports(FREE_PORTS, PORT_NAMES)

    assert resolve_ports(FREE_PORTS, PORT_NAMES, remembered=first) == first


def test_a_remembered_port_that_someone_has_taken_is_replaced(taken_port):
    remembered = replace(FREE_PORTS, kafka=taken_port)

    assert resolve_ports(FREE_PORTS, ["kafka"], remembered=remembered).kafka not in (0, taken_port)


def test_two_servers_on_one_port_are_refused():
    wanted = replace(Ports(), kafka=20000, s3=20000)

    with pytest.raises(StackError, match="PIPESTREAM_STACK_KAFKA_PORT, PIPESTREAM_STACK_S3_PORT name the same port"):
        resolve_ports(wanted, PORT_NAMES)


def test_a_taken_port_is_refused_with_its_holder_and_the_variable_to_change(taken_port):
    ports = replace(resolve_ports(FREE_PORTS, PORT_NAMES), kafka=taken_port)

    with pytest.raises(StackError) as caught:
        refuse_taken_ports(ports, PORT_NAMES)

    message = str(caught.value)
    assert f"port {taken_port} is taken" in message
    assert f"process {os.getpid()}" in message
    assert "PIPESTREAM_STACK_KAFKA_PORT" in message
    assert message.endswith("or run `pipestream up --free-ports`, which chooses free ports for all servers")


def test_free_ports_are_not_refused():
    refuse_taken_ports(resolve_ports(FREE_PORTS, PORT_NAMES), PORT_NAMES)

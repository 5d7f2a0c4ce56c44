"""Choose the ports of servers, and refuse those that are in use."""

from __future__ import annotations

import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from pipestream.errors import StackError
from pipestream.local.spec import Ports, port_variable

if TYPE_CHECKING:
    from collections.abc import Collection

HOST = "127.0.0.1"
OUTGOING_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000
# The first port for outgoing connections where the system does not say: Linux's default; others begin higher.
_FIRST_OUTGOING_PORT = 32_768


def resolve_ports(wanted: Ports, names: Collection[str], remembered: Ports | None = None) -> Ports:
    """Return ``wanted`` with every 0 among ``names`` replaced by a free port.

    A port from the last start is used again if it is still free, so that addresses that people have copied stay
    valid.

    :raises StackError: two servers would share a port.
    """
    chosen = {name: port for name in names if (port := getattr(wanted, name))}
    taken_twice = sorted(name for name in chosen if list(chosen.values()).count(chosen[name]) > 1)
    if taken_twice:
        variables = ", ".join(port_variable(name) for name in taken_twice)
        raise StackError(f"{variables} name the same port; give each its own, or 0 for a free one")
    for name in sorted(set(names) - set(chosen)):
        port = getattr(remembered, name) if remembered else 0
        while not port or port in chosen.values() or not is_free(port):
            port = random.choice(_lasting_ports())  # noqa: S311 - not for secrets
        chosen[name] = port
    return replace(wanted, **chosen)


def _lasting_ports() -> range:
    """Return the ports that the system does not use for outgoing connections.

    Other ports could be free now and in use by a client before the server listens, or while it restarts.
    """
    try:
        first = int(OUTGOING_PORTS.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = _FIRST_OUTGOING_PORT
    # A machine may use nearly all ports for outgoing connections; then there is no better choice.
    return range(LOWEST_PORT, first if first > 2 * LOWEST_PORT else _FIRST_OUTGOING_PORT)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now."""
    with socket.socket() as sock:
        # As servers do: connections of a stopped server that linger in TIME_WAIT do not count.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
            sock.listen(1)
        except OSError:
            return False
        return True


def refuse_taken_ports(ports: Ports, names: Collection[str]) -> None:
    """Check that every port in ``names`` is free.

    :raises StackError: some are not; each is named with the variable that changes it.
    """
    taken = [name for name in sorted(names) if not is_free(getattr(ports, name))]
    if not taken:
        return
    lines = []
    for name in taken:
        port = getattr(ports, name)
        lines.append(f"port {port} is taken{_by_whom(port)}; set {port_variable(name)} to another port, or to 0")
    lines.append("or run `pipestream up --free-ports`, which chooses free ports for all servers")
    raise StackError("\n".join(lines))


def _by_whom(port: int) -> str:
    """Best effort: other users' processes and other systems may not say."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and tuple(connection.laddr)[1:2] == (port,) and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        return ""
    return ""

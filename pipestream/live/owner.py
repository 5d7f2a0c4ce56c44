"""Own a server: find its guard or start one, look at the server, hand it over or stop it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestream.errors import TransientError
from pipestream.live.spec import Place, ServerSpec

_ANSWER_S = 10.0
_START_S = 60.0
_POLL_S = 0.1


class GuardGone(TransientError):
    """The guard of a server does not answer, or could not be started."""


@dataclass(frozen=True, slots=True)
class ServerLook:
    """How a server is, as its guard says."""

    pid: int
    """0: it does not run now."""
    starts: int
    last_end: str
    owners: tuple[str, ...]
    is_closing: bool


class OwnedServer:
    """A server that this process owns for as long as it lives and does not give it up."""

    def __init__(self, spec: ServerSpec, place: Place, owner: str, connection: socket.socket) -> None:
        self.spec = spec
        self.owner = owner
        self.log_file = place.log(spec.key)
        self._path = place.socket(spec.key)
        self._connection = connection

    def look(self) -> ServerLook:
        """Return how the server is.

        :raises GuardGone: its guard has ended.
        """
        return _ask(self._connection, {"do": "look"})

    def restart(self) -> None:
        """Stop the server and start it again, at once."""
        _ask(self._connection, {"do": "restart"})

    def leave(self) -> None:
        """Give the server up. It runs on for ``adopt_within_s``, in which the next owner is to come."""
        _ask(self._connection, {"do": "leave"})
        self.close()

    def close(self) -> None:
        """Close the connection. To the guard, an owner that did not leave or stop has died."""
        self._connection.close()

    def stop(self, wait_s: float) -> bool:
        """Give the server up, so that it ends unless others own it. Return whether its guard has ended in time.

        It uses a connection of its own, because a signal handler may call this in the middle of another request.
        """
        with suppress(GuardGone, OSError), _connect(self._path) as connection:
            left = _ask(connection, {"do": "stop", "owner": self.owner})
            if left.owners:
                return True
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not self._path.exists():
                return True
            time.sleep(_POLL_S)
        return False


def own_server(spec: ServerSpec, place: Place, owner: str, timeout_s: float | None = None) -> OwnedServer:
    """Own a server: the one that runs, else a new one.

    :param owner: names this owner in the guard's log; unique among the owners of the server.
    :param timeout_s: unless given, long enough for an earlier server to end.
    :raises GuardGone: a guard could not be started.
    """
    place.prepare()
    timeout_s = _START_S + spec.stop_timeout_s if timeout_s is None else timeout_s
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with _locked(place.lock(spec.key)):
            try:
                connection = _connect(place.socket(spec.key))
            except OSError:
                _start_guard(spec, place)
                connection = _connect(place.socket(spec.key))
        with suppress(GuardGone):
            if not _ask(connection, {"do": "own", "owner": owner}).is_closing:
                return OwnedServer(spec, place, owner, connection)
        # An earlier server is just being stopped. The next one must not meet it.
        connection.close()
        time.sleep(_POLL_S)
    raise GuardGone(f"the guard of {spec.name} did not take an owner in {timeout_s:g} s; see {place.log(spec.key)}")


def is_guarded(spec: ServerSpec, place: Place) -> bool:
    """Return whether a guard of the server answers."""
    with suppress(OSError, GuardGone), _connect(place.socket(spec.key)) as connection:
        return not _ask(connection, {"do": "look"}).is_closing
    return False


def stop_abandoned(spec: ServerSpec, place: Place, wait_s: float) -> list[str]:
    """Stop servers of the same name with another command that nobody owns, and return their keys.

    They are left over from before a change of settings, and may hold the port that the new server needs.
    """
    stopped = []
    for path in place.sockets(spec.name):
        if path.stem == spec.key:
            continue
        with suppress(OSError, GuardGone), _connect(path) as connection:
            if not _ask(connection, {"do": "look"}).owners:
                _ask(connection, {"do": "stop"})
                stopped.append(path.stem)
    _wait_for_end(stopped, place, wait_s)
    return stopped


def stop_all(place: Place, wait_s: float) -> list[str]:
    """Stop every server of a folder, owned or not, and return the keys of those that ran."""
    stopped = []
    for path in place.sockets():
        with suppress(OSError, GuardGone), _connect(path) as connection:
            for owner in _ask(connection, {"do": "look"}).owners:
                _ask(connection, {"do": "stop", "owner": owner})
            _ask(connection, {"do": "stop"})
            stopped.append(path.stem)
    _wait_for_end(stopped, place, wait_s)
    return stopped


def _wait_for_end(keys: list[str], place: Place, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while any(place.socket(key).exists() for key in keys) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _start_guard(spec: ServerSpec, place: Place) -> None:
    """Start a guard and return when its socket answers. It belongs to no process after that."""
    done = subprocess.run(
        [sys.executable, "-m", "pipestream.live.guard", str(place.folder)],
        input=spec.to_json(),
        text=True,
        capture_output=True,
        start_new_session=True,
        timeout=_START_S,
        check=False,
    )
    if done.returncode:
        raise GuardGone(f"the guard of {spec.name} could not be started: {done.stderr.strip()[-500:]}")


def _connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(_ANSWER_S)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _ask(connection: socket.socket, request: dict[str, Any]) -> ServerLook:
    try:
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            received = connection.recv(65_536)
            if not received:
                raise GuardGone("the guard of a server has ended")
            answer += received
    except OSError as error:
        raise GuardGone(f"the guard of a server does not answer: {error}") from error
    values = json.loads(answer)
    return ServerLook(**{**values, "owners": tuple(values["owners"])})


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Let one process at a time look for a guard and start one."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

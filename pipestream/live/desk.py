"""Where the owners of a server talk to its guard: a Unix socket, one JSON object a line.

============  ===================================================================================
``own``       this connection owns the server, under a name
``look``      how the server is
``restart``   stop the server and start it again
``leave``     own it no longer; the next owner is expected
``stop``      own it no longer; nobody needs to come. Any connection may say this for a named owner
============  ===================================================================================

Every request is answered with how the server is, after the request was taken.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any, Self

from pipestream.live.spec import ServerSpec

log = logging.getLogger("pipestream.guard")


class Desk:
    """The socket of one guard, and what its owners have said. Its threads and the guard share it."""

    def __init__(self, spec: ServerSpec, path: Path) -> None:
        """Listen. Whoever starts a guard holds the server's lock, so a socket that is there is of a dead guard."""
        self._spec = spec
        self._path = path
        self._changed = threading.Condition()
        self._owners: dict[int, str] = {}
        """Connections that own the server, and the names they gave."""
        self._unowned_until = time.monotonic() + spec.lost_within_s
        self._is_closing = False
        self._wants_restart = False
        self._pid = 0
        self._starts = 0
        self._last_end = ""
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="desk", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._listener.close()

    # -- for the guard ----------------------------------------------------------------------------

    def is_wanted(self) -> bool:
        """Return whether the server is to run. Once it is not, the desk takes no owner any more."""
        with self._changed:
            if not self._owners and time.monotonic() >= self._unowned_until:
                self._is_closing = True
            return not self._is_closing

    def take_restart_request(self) -> bool:
        with self._changed:
            wanted, self._wants_restart = self._wants_restart, False
            return wanted

    def note_start(self, pid: int) -> None:
        with self._changed:
            self._pid = pid
            self._starts += 1

    def note_end(self, how: str) -> None:
        with self._changed:
            self._pid = 0
            self._last_end = how

    def wait(self, timeout_s: float) -> None:
        """Return when an owner has said something, or after a time."""
        with self._changed:
            self._changed.wait(timeout_s)

    def close_down(self) -> None:
        """Let nobody want the server any more. Called by a signal handler, so without the lock."""
        self._is_closing = True

    # -- for the owners ---------------------------------------------------------------------------

    def _accept(self) -> None:
        for number in range(1, 2**62):
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: the guard ends
                return
            threading.Thread(target=self._serve, args=(number, connection), name=f"owner-{number}", daemon=True).start()

    def _serve(self, number: int, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rwb") as lines:
                for line in lines:
                    lines.write(json.dumps(self._take(number, json.loads(line))).encode() + b"\n")
                    lines.flush()
        except (OSError, ValueError) as error:
            log.info("a connection broke: %s", error)
        finally:
            self._drop([number], self._spec.lost_within_s, "is gone")

    def _take(self, number: int, asked: dict[str, Any]) -> dict[str, Any]:
        match asked.get("do"):
            case "own":
                with self._changed:
                    if not self._is_closing:
                        self._owners[number] = str(asked["owner"])
                log.info("%s asks to own %s", asked["owner"], self._spec.name)
            case "restart":
                with self._changed:
                    self._wants_restart = True
            case "leave":
                self._drop([number], self._spec.adopt_within_s, "hands over")
            case "stop":
                named = [each for each, owner in self._owners.items() if owner == asked.get("owner")]
                self._drop([number, *named], 0.0, "says stop")
        with self._changed:
            self._changed.notify_all()
            return {
                "pid": self._pid,
                "starts": self._starts,
                "last_end": self._last_end,
                "is_closing": self._is_closing,
                "owners": sorted(self._owners.values()),
            }

    def _drop(self, numbers: list[int], patience_s: float, how: str) -> None:
        with self._changed:
            dropped = [owner for number in numbers if (owner := self._owners.pop(number, None))]
            if (dropped or not patience_s) and not self._owners:
                self._unowned_until = time.monotonic() + patience_s
                # Decided here, not when the guard looks next: an owner that comes in between must get a new server.
                self._is_closing = self._is_closing or not patience_s
            self._changed.notify_all()
        for owner in dropped:
            log.info("%s %s", owner, how)

"""Serve a Python function at a Unix socket, one message after the other.

``pipestream runtime serve`` runs this, and so does the process of a ``runtime:`` module
(``python -m pipestream.modules.runtime.serve``). The protocol of a message is known by its first byte, so that one
server speaks both. It is ready when its socket is there and the file ``runtime-ready`` next to it.
"""

from __future__ import annotations

import argparse
import faulthandler
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipestream.errors import GraphInvalid, ModuleFailed, RequestInvalid
from pipestream.modules.exchange import LENGTH, read_frame, read_to_end
from pipestream.modules.runtime.handler import Handler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

log = logging.getLogger(__name__)

READY_FILE = "runtime-ready"
CANNOT_IMPORT = 3
"""Exit code of a server whose function is not there."""

_WAITING = 128
# A client that connects and sends nothing must not hold up the others for longer.
_CLIENT_TIMEOUT_S = 30.0
_MEGABYTE = 1024 * 1024


class Server:
    """Listens at a socket; a context manager that removes it at the end."""

    def __init__(self, handler: Handler, path: Path) -> None:
        self._handler = handler
        self._path = path
        self._ready = path.parent / READY_FILE
        self._stopping = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Server:
        """Listen.

        :raises RequestInvalid: the socket cannot be made there, or another process listens at it.
        """
        try:
            _remove_stale(self._path)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._listener.bind(str(self._path))
            self._path.chmod(0o600)
            self._listener.listen(_WAITING)
        except OSError as error:
            self._listener.close()
            raise RequestInvalid(f"{self._path} cannot be listened at: {error.strerror or error}") from error
        self._ready.write_text(f"{os.getpid()}\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for file in (self._ready, self._path):
            file.unlink(missing_ok=True)

    def stop(self, *_: object) -> None:
        """Let ``serve`` return after the message in hand."""
        self._stopping = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Answer messages until ``stop`` is called."""
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                raise
            with connection:
                try:
                    self._answer(connection)
                except (OSError, ModuleFailed) as error:
                    log.warning("a connection failed: %s", error)

    def _answer(self, connection: socket.socket) -> None:
        deadline = time.monotonic() + _CLIENT_TIMEOUT_S

        def left_s() -> float:
            return max(deadline - time.monotonic(), 0.001)

        connection.settimeout(_CLIENT_TIMEOUT_S)
        first = connection.recv(1, socket.MSG_PEEK)
        if not first:
            return
        if first[0] < 8:
            answer = self._handler.answer_envelope(read_frame(connection, left_s))
            answer = LENGTH.pack(len(answer)) + answer
        else:
            answer = self._handler.answer_payload(read_to_end(connection, left_s))
        connection.settimeout(_CLIENT_TIMEOUT_S)
        connection.sendall(answer)


def serve_function(target: str, path: Path, actor: str = "") -> None:
    """Serve until SIGTERM or SIGINT.

    :param target: ``package.module:function``.
    :raises GraphInvalid: the function is not there.
    :raises RequestInvalid: the socket cannot be made.
    """
    handler = Handler.of(target, actor)
    with Server(handler, path) as server:

        def stop(_number: int, _frame: FrameType | None) -> None:
            server.stop()

        before = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGINT)]
        try:
            server.serve()
        finally:
            for number, earlier in before:
                signal.signal(number, earlier)


def die_with(descriptor: int) -> None:
    """End this process and all that it started as soon as the other end of a pipe is closed: the owner has died.

    The kernel sends the signal, so that it also reaches native code that hangs and never returns to Python.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if not _is_open(descriptor):  # it was closed before the signal was asked for
        os.killpg(0, signal.SIGKILL)


def limit_memory(megabytes: int) -> None:
    """Let an allocation beyond the limit fail in this process, before the machine runs out of memory."""
    if megabytes:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes * _MEGABYTE, megabytes * _MEGABYTE))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a function for the process that started this one."""
    parser = argparse.ArgumentParser(prog="pipestream.modules.runtime.serve")
    parser.add_argument("target")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--memory-mb", type=int, default=0)
    given = parser.parse_args(arguments)
    die_with(sys.stdin.fileno())
    # A crash of native code then leaves the place in Python in the output, which its owner shows.
    faulthandler.enable()
    limit_memory(given.memory_mb)
    try:
        serve_function(given.target, given.socket)
    except (GraphInvalid, RequestInvalid) as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT_IMPORT
    return 0


def _remove_stale(path: Path) -> None:
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise OSError(None, "another process listens there")


def _is_open(descriptor: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLHUP)
    return not any(events & select.POLLHUP for _, events in poll.poll(0))


if __name__ == "__main__":
    sys.exit(main())

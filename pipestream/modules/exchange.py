"""One message to a Unix socket, and its answer; for both protocols of the programs behind sockets.

``payload``: the request runs until the writing side is closed, the answer until the connection is.
``envelope``: each message has its length in front, four bytes, the highest first.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
MAX_FRAME_BYTES = 127 * 1024 * 1024
"""The first byte of a length is then below 8, and the first of a JSON text never is: so a server knows the protocol."""
LENGTH = struct.Struct(">I")

_READ_BYTES = 64 * 1024


def exchange(path: str, request: bytes, timeout_s: float, *, framed: bool) -> bytes:
    """Send a request and return the whole answer; the timeout is for all of it, not for each read.

    :raises TimeoutError: it took longer.
    :raises OSError: nobody listens there, or the connection broke.
    :raises ModuleFailed: a message is too large.
    """
    left_s = _countdown(timeout_s)
    if framed and len(request) > MAX_FRAME_BYTES:
        raise ModuleFailed(f"the message has {len(request)} bytes, and an envelope at most {MAX_FRAME_BYTES}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(left_s())
        connection.connect(path)
        connection.settimeout(left_s())
        if framed:
            connection.sendall(LENGTH.pack(len(request)) + request)
            return read_frame(connection, left_s)
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return read_to_end(connection, left_s)


def read_frame(connection: socket.socket, left_s: Callable[[], float]) -> bytes:
    """Return one message that has its length in front; nothing, if the connection ends before the length.

    :raises ConnectionError: it ends in the middle of the message.
    :raises ModuleFailed: the message is too large.
    """
    start = _read(connection, LENGTH.size, left_s)
    if not start:
        return b""
    if len(start) < LENGTH.size:
        raise ConnectionError("the connection ended inside the length of a message")
    (length,) = LENGTH.unpack(start)
    if length > MAX_FRAME_BYTES:
        raise ModuleFailed(f"the message has {length} bytes, and an envelope at most {MAX_FRAME_BYTES}")
    data = _read(connection, length, left_s)
    if len(data) < length:
        raise ConnectionError(f"the connection ended after {len(data)} of {length} bytes")
    return data


def read_to_end(connection: socket.socket, left_s: Callable[[], float]) -> bytes:
    """Return everything until the other side closes.

    :raises ModuleFailed: it is too much.
    """
    data = _read(connection, MAX_PAYLOAD_BYTES + 1, left_s)
    if len(data) > MAX_PAYLOAD_BYTES:
        raise ModuleFailed(f"the message has more than {MAX_PAYLOAD_BYTES} bytes")
    return data


def _read(connection: socket.socket, limit: int, left_s: Callable[[], float]) -> bytes:
    data = bytearray()
    while len(data) < limit:
        connection.settimeout(left_s())
        more = connection.recv(min(_READ_BYTES, limit - len(data)))
        if not more:
            break
        data += more
    return bytes(data)


def _countdown(timeout_s: float) -> Callable[[], float]:
    deadline = time.monotonic() + timeout_s

    def left_s() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    return left_s

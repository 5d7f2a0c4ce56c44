"""The health of a gRPC module, by gRPC's own health protocol.

On the wire, the messages of the protocol are two well-known types: a request has a text in field 1, an answer has a
number there. So no generated code of another package is needed where modules are called.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

log = logging.getLogger(__name__)

_CHECK = "/grpc.health.v1.Health/Check"
_WATCH = "/grpc.health.v1.Health/Watch"
_SERVING = 1
# A server that has the protocol but was told nothing about the service as a whole answers one of these.
_NOT_KNOWN = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND}
_SERVICE_UNKNOWN = 3
_AGAIN_S = 1.0


class Health(StrEnum):
    """How a module is."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    UNREACHABLE = "unreachable"
    UNWATCHED = "reachable"
    """It can be called, but does not have the health protocol."""
    UNKNOWN = "unknown"
    """It was not asked yet."""


@runtime_checkable
class HealthyModule(Protocol):
    """A module that can be asked how it is. Modules of this process cannot: they are as well as the process."""

    def health(self) -> tuple[Health, str]:
        """Return how it is and, where it did not answer, why."""


def check_health(channel: grpc.Channel, timeout_s: float) -> tuple[Health, str]:
    """Ask a module how it is; return the answer and, where it did not answer, why."""
    call = channel.unary_unary(_CHECK, StringValue.SerializeToString, Int32Value.FromString)
    try:
        return _read(call(StringValue(), timeout=timeout_s)), ""
    except grpc.RpcError as error:
        if error.code() in _NOT_KNOWN:
            return Health.UNWATCHED, ""
        return Health.UNREACHABLE, f"{error.code().name}: {(error.details() or '')[:300]}"


class HealthWatch:
    """Follows the health of a module in a thread of its own, from ``start`` to ``close``.

    Ends by itself if the module does not have the protocol.
    """

    def __init__(self, channel: grpc.Channel, name: str, changed: Callable[[Health, Health], None]) -> None:
        """:param changed: called with the health before and the health now, in the thread of the watch."""
        self.health = Health.UNKNOWN
        self._call: Any = channel.unary_stream(_WATCH, StringValue.SerializeToString, Int32Value.FromString)
        self._name = name
        self._changed = changed
        self._closed = threading.Event()
        self._stream: Any = None
        self._thread = threading.Thread(target=self._run, name=f"health of {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the watch. Close it before its channel."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._stream = self._call(StringValue())
                if self._closed.is_set():
                    self._stream.cancel()
                for answer in self._stream:
                    self._note(_read(answer))
            except grpc.RpcError as error:
                if self._closed.is_set():
                    return
                if error.code() in _NOT_KNOWN:
                    self._note(Health.UNWATCHED)
                    return
            except ValueError:  # the channel was closed
                return
            self._note(Health.UNREACHABLE)
            self._closed.wait(_AGAIN_S * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret

    def _note(self, health: Health) -> None:
        before, self.health = self.health, health
        if before is not health:
            log.log(
                logging.INFO if health in (Health.SERVING, Health.UNWATCHED) else logging.WARNING,
                "%s: %s, after %s",
                self._name,
                health,
                before,
            )
            self._changed(before, health)


def _read(answer: Int32Value) -> Health:
    if answer.value == _SERVICE_UNKNOWN:
        return Health.UNWATCHED
    return Health.SERVING if answer.value == _SERVING else Health.NOT_SERVING

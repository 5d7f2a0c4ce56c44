"""Send a stream to a node that lives elsewhere: parse the node's ``engine`` and open its transport.

Kafka is not one of these transports. Records for Kafka are written in the transaction that commits the offsets, exactly
once. A transport is called before that transaction, so after a crash it may send a stream twice, with the same key.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pipestream.plugins import PluginContext, PluginGroup, find_plugin, plugin_names

if TYPE_CHECKING:
    from pipestream.wire import PipeStream

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", re.ASCII)


class EdgeTransport(Protocol):
    """Sends streams. Threads do not share one."""

    def process(
        self, stream: PipeStream, idempotency_key: str, timeout_s: float, deadline: float | None = None
    ) -> None:
        """Return once the other side has the stream, and will not lose it.

        :param idempotency_key: the same for every repeat of the same work.
        :param timeout_s: how long a call may take.
        :param deadline: when nobody waits any more, by ``time.monotonic``; None: somebody waits as long as it takes.
        :raises ModuleUnavailable: it could not be reached, or took longer than ``timeout_s``; it is tried again.
        :raises ModuleFailed: it refused the stream, which then fails at this node.
        """

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """A node's ``engine``: ``HOST:PORT`` for a remote engine by gRPC, or ``NAME://TARGET`` for a transport's name."""

    transport: str
    target: str


def parse_engine(text: str) -> EngineAddress:
    """Parse a node's ``engine``, without importing the transport.

    :raises ValueError: it has neither form, or no installed transport has the name.
    """
    name, scheme, target = text.partition("://")
    if scheme and name != "grpc" and target and find_plugin(PluginGroup.TRANSPORT, name):
        return EngineAddress(name, target)
    found = _HOST_PORT.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65_536:
        others = [f"{name}://TARGET" for name in plugin_names(PluginGroup.TRANSPORT) if name != "grpc"]
        raise ValueError(f"write {' or '.join(['HOST:PORT', *others])}")
    return EngineAddress("grpc", text)


def open_transport(engine: str, context: PluginContext | None = None) -> EdgeTransport:
    """Return the transport that sends streams to a node's ``engine``. Close it when done.

    :raises ValueError: it is not an address, or its transport refuses the target.
    :raises PluginBroken: its transport is of another package, and fails, or takes no deadline.
    """
    address = parse_engine(engine)
    plugin = find_plugin(PluginGroup.TRANSPORT, address.transport)
    assert plugin is not None, "parse_engine has found it"
    transport: EdgeTransport = plugin.make(address.target, context or PluginContext())
    if not _takes_deadline(transport):
        transport.close()
        raise plugin.broken(
            f"{type(transport).__name__}.process does not take a deadline; "
            f"let it be process(self, stream, idempotency_key, timeout_s, deadline=None)"
        )
    return transport


def _takes_deadline(transport: EdgeTransport) -> bool:
    """Decide it now: called with an argument that it does not know, a transport would fail for every document."""
    try:
        inspect.signature(transport.process).bind("stream", "key", 1.0, None)
    except TypeError:
        return False
    return True

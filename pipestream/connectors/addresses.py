"""Which network addresses a connector may talk to: those of the public internet, unless the graph allows others.

The check is made where the connection is: the name is resolved once, and the address that was checked is the one that
is connected to. So neither a redirect nor a name that resolves differently the second time leads inside.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import Any

from pipestream.extras import needs_extra

with needs_extra("connectors"):
    import httpcore

_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(Exception):
    """A host is not on the public internet."""


def is_public(text: str) -> bool:
    """Tell whether an address is of the public internet, also if it is wrapped in one of IPv6."""
    address: Address = ipaddress.ip_address(text.partition("%")[0])
    inner = _wrapped(address)
    if inner is not None and not is_public(str(inner)):
        return False
    return address.is_global and not address.is_multicast


def _wrapped(address: Address) -> Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host.

    :raises httpcore.ConnectError: the name is not known.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"the name {host} cannot be resolved: {error}") from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class GuardedBackend(httpcore.NetworkBackend):
    """Opens connections to public addresses only, and lets nothing take longer than the request in progress may."""

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._inner = httpcore.SyncBackend()
        self.deadline = math.inf
        """When the request in progress must be complete, by ``time.monotonic``."""

    def left_s(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return how long one step of the request may take. Its own timeout would begin anew with every byte.

        :param late: raised where nothing is left.
        """
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise late
        if math.isinf(left_s):
            return timeout
        return left_s if timeout is None else min(timeout, left_s)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = self._checked(host, resolve(host, port))
        for number, address in enumerate(addresses, 1):
            limit = self.left_s(timeout, httpcore.ConnectTimeout)
            try:
                return _LimitedStream(
                    self._inner.connect_tcp(address, port, limit, local_address, socket_options), self
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> httpcore.NetworkStream:
        raise AddressRefused(f"{path} is a socket of this machine")

    def _checked(self, host: str, addresses: Sequence[str]) -> Sequence[str]:
        if not self._allow_private:
            # All of them, so that it does not depend on the order of the answer whether a host is refused.
            for address in addresses:
                if not is_public(address):
                    raise AddressRefused(
                        f"{host} has the address {address}, which is not of the public internet; if it is meant, "
                        f"set allow_private: true"
                    )
        return addresses


class _LimitedStream(httpcore.NetworkStream):
    """A connection that keeps to the deadline of its backend."""

    def __init__(self, inner: httpcore.NetworkStream, backend: GuardedBackend) -> None:
        self._inner = inner
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._backend.left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._backend.left_s(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        limit = self._backend.left_s(timeout, httpcore.ConnectTimeout)
        return _LimitedStream(self._inner.start_tls(ssl_context, server_hostname, limit), self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
